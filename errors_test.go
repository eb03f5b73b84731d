package sandbox_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/sandbox-go/sandbox"
)

// An error names what it is about: the sandbox, and the execution if there is one.
func TestErrorsNameWhatTheyAreAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sb, stop := newSandbox(t, sleepy(nil), nil)
		defer stop()
		ex := start(t, sb, sandbox.Command{Shell: "sleep 1s"})
		wait(t, ex)
		_, unknown := sb.Exec("exec_none")
		_, malformed := sb.Start(t.Context(), sandbox.Command{})
		_, noStdin := ex.WriteStdin(t.Context(), nil)
		for op, tt := range map[string]struct {
			err  error
			exec string
		}{
			"find":        {unknown, "exec_none"},
			"start":       {malformed, ""},
			"write stdin": {noStdin, ex.ID()},
		} {
			var e *sandbox.Error
			if !errors.As(tt.err, &e) || e.Op != op || e.Sandbox != sb.ID() || e.Exec != tt.exec {
				t.Errorf("%s: got %#v", op, tt.err)
				continue
			}
			want := "sandbox: " + op + " " + sb.ID() + ": " + e.Err.Error()
			if tt.exec != "" {
				want = "sandbox: " + op + " of " + tt.exec + " " + sb.ID() + ": " + e.Err.Error()
			}
			if got := e.Error(); got != want {
				t.Errorf("it says %q, want %q", got, want)
			}
		}
	})
}
