package kubernetes

import "github.com/sandbox-go/sandbox/internal/agent"

// Agent returns the program that an image named by Options.AgentImage may have as
// /sandbox-agent, for nodes of an architecture as GOARCH names it: amd64 or arm64. It is
// of this version of the library, and no other will do.
func Agent(goarch string) ([]byte, error) {
	program, _, err := agent.Binary(goarch)
	return program, err
}

const (
	agentDir  = "/.sandbox"         // where the agent's volume is mounted
	agentPath = agentDir + "/agent" // the agent's program in a pod
)

// install takes the agent in: from the image, or else by send. The arguments are the
// SHA-256 of the programs for each architecture.
const install = `umask 022
cd ` + agentDir + ` || exit
if [ -f /sandbox-agent ]; then
	cat /sandbox-agent >agent || exit
else
	until [ -f sent ]; do sleep 0.05 || sleep 1 || exit; done
fi
sum=$(sha256sum <agent) || exit
for known; do
	case $sum in
	"$known "*) chmod 555 agent; exit ;;
	esac
done
echo "the agent is not of this version of the library: $sum" >&2
exit 1
`

// send takes the agent from its stdin, after it has said which. The arguments are the
// sizes of the programs for amd64 and arm64. It may run more than once, also at the same
// time, when the answer to an attempt is lost: the program is there at once and whole.
const send = `umask 022
cd ` + agentDir + ` || exit
uname -m
case $(uname -m) in
x86_64 | amd64) size=$1 ;;
aarch64 | arm64) size=$2 ;;
*) exit 1 ;;
esac
head -c "$size" >coming.$$ || exit
[ "$(wc -c <coming.$$)" -eq "$size" ] && chmod 555 coming.$$ && mv -f coming.$$ agent && : >sent
`

// architectures are those that there is an agent for, in the order of send's arguments.
var architectures = []string{"amd64", "arm64"}

// machine returns the architecture that uname -m names so.
func machine(name string) string {
	switch name {
	case "x86_64", "amd64":
		return "amd64"
	case "aarch64", "arm64":
		return "arm64"
	}
	return name
}
