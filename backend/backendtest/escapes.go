package backendtest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox"
)

// escapeCases are about commands that try to get away from a kill.
func escapeCases() []Case {
	return []Case{{
		Name:  "sessions-do-not-escape",
		Rule:  "A kill reaches what has called setsid, and the children of that, however detached.",
		needs: needSupervisor,
		run:   sessionsDoNotEscape,
	}, {
		Name:  "daemons-do-not-escape",
		Rule:  "A kill reaches what uses nohup, a process group of its own, a cleared environment, or another name.",
		needs: needSupervisor | needShell,
		run:   daemonsDoNotEscape,
	}, {
		Name:  "forks-are-outrun",
		Rule:  "A kill ends within 10 s what forks, calls setsid and exits without end, and what wakes each other, and other executions go on.",
		needs: needSupervisor | needShell,
		run:   forksAreOutrun,
	}, {
		Name:  "a-kill-of-all-stays-inside",
		Rule:  "A command that kills all it may kill ends nothing but what is in its sandbox: it ends truthfully, the next one works, and other sandboxes go on.",
		needs: needShell | needDedicatedUser,
		run:   aKillOfAllStaysInside,
	}, {
		Name:  "the-agent-is-not-signalled",
		Rule:  "Where Info says ProtectedAgent, the sandbox lives, and the next command runs, after a command has killed every process and thread that it can.",
		needs: needShell | needProc,
		run:   theAgentIsNotSignalled,
	}, {
		Name:  "zombies-are-reaped",
		Rule:  "Orphans that end are reaped: no zombies collect in the sandbox.",
		needs: needShell | needProc | needSupervisor,
		run:   zombiesAreReaped,
	}, {
		Name: "a-close-ends-all",
		Rule: "What outlives an execution belongs to the sandbox and dies with it; what runs is cancelled.",
		run:  aCloseEndsAll,
	}}
}

func sessionsDoNotEscape(s *subject) {
	e := s.start(s.command(
		spawnSession(spawn(beat("a")), spawnSession(spawnRedirected(beat("b")), exit(0)), beat("c")),
		spawnRedirected(ignoreTerm(), spawnSession(beat("d")), exit(0)),
		sleep(long)))
	s.beats("a", "b", "c", "d")
	s.ended(s.cancel(e), sandbox.Cancelled, none)
	s.rests("a", "b", "c", "d")
}

func daemonsDoNotEscape(s *subject) {
	text := `
dir=$PWD
beat() { printf %s "while printf x >>$1; do sleep 0.03; done"; }
nohup sh -c "$(beat a)" >/dev/null 2>&1 &
timeout 60 sh -c "$(beat b)" &
env -i PATH="$PATH" setsid sh -c "$(beat c)" &
(cd / && exec setsid sh -c "cd '$dir'; ($(beat d)) & exit 0") &
setsid sh -c "printf kworker >/proc/\$\$/comm; $(beat e)" 2>/dev/null &
sleep 90`
	e := s.start(sandbox.Command{Shell: text})
	s.beats("a", "b", "c", "d")
	if s.h.Proc {
		s.beats("e")
	}
	s.ended(s.cancel(e), sandbox.Cancelled, none)
	s.rests("a", "b", "c", "d", "e")
}

func forksAreOutrun(s *subject) {
	s.ended(s.shell(`
printf '%s' 'printf x >>comet && setsid sh ./comet.sh & exit 0' >comet.sh
printf '%s' 'while printf x >>pair; do kill -CONT $1 2>/dev/null || sleep 0.01; done' >pair.sh
printf '%s' 'printf x >>bomb; [ $1 -gt 5 ] || { sh ./bomb.sh $(($1+1)) & sh ./bomb.sh $(($1+1)) & }; sleep 60' >bomb.sh`),
		sandbox.Completed, 0)
	other := s.start(sandbox.Command{Shell: `
for n in 1 2 3 4; do while :; do printf x >>other$n; done & done
wait`})
	e := s.start(sandbox.Command{Shell: `
i=0; while [ $i -lt 8 ]; do sh ./comet.sh & i=$((i+1)); done
sh ./pair.sh $$ & sh ./pair.sh $! &
sh ./bomb.sh 1 &
sleep 90`})
	s.beats("other1", "other2", "other3", "other4", "comet", "pair")
	begin := time.Now()
	s.ended(s.cancel(e), sandbox.Cancelled, none)
	s.prompt("the kill", time.Since(begin), 0)
	s.rests("comet", "pair", "bomb")
	s.beats("other1", "other2", "other3", "other4")
	s.ended(s.cancel(other), sandbox.Cancelled, none)
}

func aKillOfAllStaysInside(s *subject) {
	sb := s.newSandbox()
	defer s.closing("the other sandbox", sb.Close)
	other := s.in(sb)
	going := other.start(s.command(beat("other")))
	victim := s.start(s.command(sleep(long)))
	s.eventually("the victim runs", func() bool { return victim.Execution().Status == sandbox.Running })
	s.completed(s.shell("kill -9 -1; echo alone; exit 3"), 3, "alone\n", "")
	rec := s.wait(victim)
	s.completed(rec, 137, "", "")
	if rec.Signal != 9 {
		s.Errorf("the victim ended with signal %v, want 9", rec.Signal)
	}
	s.completed(s.run(print("on")), 0, "on", "")
	other.beats("other")
	s.ended(s.in(sb).cancel(going), sandbox.Cancelled, none)
}

func theAgentIsNotSignalled(s *subject) {
	if !s.Info().Backend.ProtectedAgent {
		s.Skip("it needs an agent that commands cannot signal")
	}
	for _, signal := range []string{"KILL", "TERM"} {
		// What watches over the command may be killed too, so how it ends is not looked at.
		s.shell(`
for t in /proc/[0-9]*/task/[0-9]*; do
	[ "${t##*/}" = $$ ] || kill -` + signal + ` "${t##*/}"
done 2>/dev/null
kill -` + signal + ` -1`)
		s.completed(s.run(print("on")), 0, "on", "")
	}
}

func zombiesAreReaped(s *subject) {
	marker := fmt.Sprintf("z%d", rand.Uint32())
	cmd := sandbox.Command{Shell: `
i=0
while [ $i -lt 100 ]; do
	(sh -c 'printf ` + marker + ` >/proc/$$/comm; exec 2>/dev/null; sleep 0.1 & wait') &
	i=$((i+1))
done
exit 0`, Wait: sandbox.WaitExit}
	s.completed(s.runCommand(cmd), 0, "", "")
	s.eventually("all have ended and were reaped", func() bool {
		return *s.shell("grep -q '[" + marker[:1] + "]" + marker[1:] + "' /proc/[0-9]*/comm 2>/dev/null").ExitCode != 0
	})
}

func aCloseEndsAll(s *subject) {
	nap := long + rand.N(10_000*time.Second)
	seen := func() []string { return processes("sleep\x00" + seconds(nap)) }
	cmd := s.command(spawn(sleep(nap)), spawnRedirected(sleep(nap), exit(0)), print("hi"))
	cmd.Wait = sandbox.WaitExit
	s.completed(s.runCommand(cmd), 0, "hi", "")
	running := s.start(s.command(sleep(nap)))
	p := s.process(io.Discard, sleep(long))
	if s.h.HostProc {
		s.eventually("processes are seen in /proc", func() bool { return len(seen()) == 3 })
	}
	s.closing("the sandbox", s.Close)
	s.ended(s.wait(running), sandbox.Cancelled, none)
	if s.h.HostProc && len(seen()) > 0 {
		s.Errorf("after the close there are still %q, want none", seen())
	}
	if exit, err := p.Exit(); err == nil && exit.Signal == 0 {
		s.Errorf("a command has outlived its sandbox: %+v", exit)
	}
	<-p.OutputOver()
}

// processes returns the command lines in this machine's /proc that contain text.
func processes(text string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(line), text) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
