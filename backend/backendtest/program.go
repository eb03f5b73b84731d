package backendtest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sandbox-go/sandbox/backend"
)

// A Program is what a command does, step by step. Its exit code is 0 unless a step
// says otherwise.
type Program struct{ steps []step }

// A step is rendered for sh, or interpreted.
type step struct {
	shell string
	run   func(Machine)
}

// Shell renders the program for sh.
func (p Program) Shell() string {
	lines := make([]string, len(p.steps))
	for i, s := range p.steps {
		lines[i] = s.shell
	}
	return strings.Join(lines, "\n")
}

// print writes text to stdout.
func print(text string) step {
	return step{printf(text), func(m Machine) { m.Stdout([]byte(text)) }}
}

// printErr writes text to stderr.
func printErr(text string) step {
	return step{printf(text) + " >&2", func(m Machine) { m.Stderr([]byte(text)) }}
}

// lines writes the numbers from 1 to n to stdout, one a line.
func lines(n int) step {
	shell := fmt.Sprintf("awk 'BEGIN { for (i = 1; i <= %d; i++) print i }'", n)
	return step{shell, func(m Machine) {
		for r := numbered(n); ; {
			chunk := r.next()
			if len(chunk) == 0 {
				return
			}
			m.Stdout(chunk)
		}
	}}
}

// zeros writes n zero bytes to stdout.
func zeros(n int) step {
	return step{fmt.Sprintf("head -c %d /dev/zero", n), func(m Machine) {
		chunk := make([]byte, 32<<10)
		for left := n; left > 0; left -= len(chunk) {
			chunk = chunk[:min(len(chunk), left)]
			m.Stdout(chunk)
		}
	}}
}

// cat copies stdin to stdout.
func cat() step {
	return step{"cat", func(m Machine) {
		buf := make([]byte, 32<<10)
		for {
			n, err := m.Stdin(buf)
			m.Stdout(buf[:n])
			if err != nil {
				return
			}
		}
	}}
}

// countInput reads stdin to its end and prints how many bytes it had.
func countInput() step {
	return step{"echo $(($(wc -c)))", func(m Machine) {
		total, buf := 0, make([]byte, 32<<10)
		for {
			n, err := m.Stdin(buf)
			total += n
			if err != nil {
				break
			}
		}
		m.Stdout(fmt.Appendln(nil, total))
	}}
}

// readLine reads a line of stdin and prints "got:" and it.
func readLine() step {
	return step{`read -r line; printf 'got:%s\n' "$line"`, func(m Machine) {
		var line []byte
		for b := []byte{0}; ; {
			n, err := m.Stdin(b)
			if n == 1 && b[0] != '\n' {
				line = append(line, b[0])
			} else if n == 1 || err != nil {
				break
			}
		}
		m.Stdout(fmt.Appendf(nil, "got:%s\n", line))
	}}
}

// printVar prints the value of an environment variable, and a newline.
func printVar(name string) step {
	return step{fmt.Sprintf(`printf '%%s\n' "$%s"`, name), func(m Machine) {
		m.Stdout([]byte(m.Getenv(name) + "\n"))
	}}
}

// sleep waits for d.
func sleep(d time.Duration) step {
	return step{"sleep " + seconds(d), func(m Machine) { m.Sleep(d) }}
}

// exit ends the program with an exit code.
func exit(code int) step {
	return step{"exit " + strconv.Itoa(code), func(m Machine) { m.Exit(code) }}
}

// die ends the program by a signal.
func die(sig backend.Signal) step {
	return step{fmt.Sprintf("kill -%d $$", sig), func(m Machine) { m.Raise(sig) }}
}

// eat takes memory until the kernel ends the program.
func eat() step {
	return step{"x=0123456789; while :; do x=$x$x; done", func(m Machine) { m.Eat() }}
}

// ignoreTerm makes the program, and what it spawns from now on, ignore SIGTERM,
// SIGINT and SIGHUP.
func ignoreTerm() step {
	return step{"trap '' TERM INT HUP", func(m Machine) {
		m.Ignore(backend.SIGTERM, backend.SIGINT, backend.SIGHUP)
	}}
}

// await prints ready and waits for a signal.
func await(sig backend.Signal, ready string) step {
	shell := fmt.Sprintf("got=; trap got=1 %d\n%s\nwhile [ -z \"$got\" ]; do sleep 0.02; done 2>/dev/null", sig, printf(ready))
	return step{shell, func(m Machine) { m.Await(sig, func() { m.Stdout([]byte(ready)) }) }}
}

// terminalSize prints how many rows and columns the terminal has.
func terminalSize() step {
	return step{"stty size", func(m Machine) {
		size := m.Terminal()
		m.Stdout(fmt.Appendf(nil, "%d %d\n", size.Rows, size.Cols))
	}}
}

// spawn starts a background program that keeps the output.
func spawn(steps ...step) step { return background(How{}, Program{steps}) }

// spawnRedirected starts a background program whose output goes nowhere.
func spawnRedirected(steps ...step) step { return background(How{Redirected: true}, Program{steps}) }

// spawnSession starts a background program that keeps the output, in a session of
// its own.
func spawnSession(steps ...step) step { return background(How{Session: true}, Program{steps}) }

func background(how How, p Program) step {
	shell := "sh -c " + quote(p.Shell())
	if how.Session {
		shell = "setsid " + shell
	}
	if how.Redirected {
		shell += " >/dev/null 2>&1"
	}
	return step{shell + " &", func(m Machine) { m.Spawn(p, how) }}
}

// wait waits for the background programs.
func wait() step { return step{"wait", func(m Machine) { m.Wait() }} }

// appendTo makes a file one byte longer. The program ends when that fails, so that
// a survivor does not outlive its sandbox's files for ever.
func appendTo(file string) step {
	return step{"printf x >>" + file + " || exit 1", func(m Machine) { m.Append(file) }}
}

// size prints how long a file is, 0 when there is none.
func size(file string) step {
	shell := fmt.Sprintf("if [ -e %s ]; then echo $(($(wc -c <%[1]s))); else echo 0; fi", file)
	return step{shell, func(m Machine) { m.Stdout(fmt.Appendln(nil, m.Size(file))) }}
}

// forever repeats the steps without end.
func forever(steps ...step) step {
	p := Program{steps}
	return step{"while :; do\n" + p.Shell() + "\ndone", func(m Machine) {
		for {
			p.Run(m)
		}
	}}
}

// beat makes a file longer for as long as the program lives.
func beat(file string) step { return forever(appendTo(file), sleep(beatTime)) }

// printf renders text as an argument of the shell's printf, which takes octal
// escapes everywhere.
func printf(text string) string {
	var b strings.Builder
	b.WriteString("printf '")
	for i := range len(text) {
		switch c := text[i]; {
		case c == '%':
			b.WriteString("%%")
		case c < ' ' || c > '~' || c == '\'' || c == '\\':
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteString("'")
	return b.String()
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
