package local_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/backend/local"
	"github.com/sandbox-go/sandbox/internal/programtest"
)

// asInheritor is the variable that makes this program a service that says what its
// commands inherit from whoever has started it. It holds how they are started.
const asInheritor = "SANDBOX_TEST_INHERITOR"

// TestInherited: commands start with umask 022 and default signals, however the service
// was started, and it can make its directories; its own umask stays what it was. What
// process groups cannot have, Info says.
func TestInherited(t *testing.T) {
	if how := os.Getenv(asInheritor); how != "" {
		tellInherited(how == "groups")
	}
	self := programtest.PublicSelf(t)
	for how, ignored := range map[string]string{
		"agent":  "0000000000000000",
		"groups": "ignored, as Info says", // CONT, TSTP, TTIN and TTOU
	} {
		for _, background := range []string{"exec", "nohup"} {
			t.Run(how+"-"+background, func(t *testing.T) {
				cmd := exec.Command("sh", "-c",
					`umask 0777; trap '' HUP INT QUIT PIPE TERM CHLD CONT TSTP TTIN TTOU USR1 ALRM; `+background+` "$0" -test.run='^TestInherited$'`, self)
				cmd.Env = append(os.Environ(), asInheritor+"="+how, "TMPDIR="+programtest.OwnDir(t, os.Geteuid()))
				out, err := cmd.CombinedOutput()
				want := strings.Repeat("0022 0000000000000000 "+ignored+"\n", 4) + "777\n"
				if got := string(out); err != nil || got != want {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
			})
		}
	}
}

func TestInheritedOrdinaryUser(t *testing.T) { asOrdinaryUser(t, "^TestInherited$") }

func tellInherited(groups bool) {
	if err := inherited(groups); err != nil {
		fmt.Println(err)
	}
	os.Exit(0)
}

// stopSignals is a mask of SIGCONT, SIGTSTP, SIGTTIN and SIGTTOU.
const stopSignals = 1<<(18-1) | 1<<(20-1) | 1<<(21-1) | 1<<(22-1)

// inherited prints the umask and the blocked and ignored signals of commands, and then
// the service's umask.
func inherited(groups bool) error {
	b, err := local.New(&local.Options{ProcessGroups: groups, Dir: filepath.Join(os.TempDir(), "missing", "too")})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	defer b.Close(ctx)
	i, err := b.Create(ctx, &backend.Config{ID: "sbx_1"})
	if err != nil {
		return err
	}
	caveat := strings.Contains(strings.Join(b.Info().Caveats, "\n"), "Commands ignore SIGCONT, SIGTSTP, SIGTTIN and SIGTTOU")
	const shell = `echo $(umask) $(awk '/^Sig(Blk|Ign)/ {print $2}' /proc/self/status)`
	for n := range 4 {
		spec := &backend.Spec{Shell: shell}
		if n%2 == 1 {
			spec = &backend.Spec{Argv: []string{"sh", "-c", shell}}
		}
		if n > 1 {
			spec.Terminal = &backend.TerminalSize{}
		}
		var out strings.Builder
		spec.Stdout, spec.Stderr = &out, &out
		p, err := i.Start(ctx, spec)
		if err != nil {
			return err
		}
		if _, err := p.Exit(); err != nil {
			return err
		}
		<-p.OutputOver()
		said := strings.TrimSpace(out.String())
		last := said[strings.LastIndex(said, " ")+1:]
		if ignored, err := strconv.ParseUint(last, 16, 64); err == nil && caveat && ignored != 0 && ignored&^stopSignals == 0 {
			said = strings.TrimSuffix(said, last) + "ignored, as Info says"
		}
		fmt.Println(said)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, umask, _ := strings.Cut(string(status), "\nUmask:\t")
	umask, _, _ = strings.Cut(umask, "\n")
	fmt.Println(strings.TrimLeft(umask, "0"))
	return i.Destroy(ctx)
}
