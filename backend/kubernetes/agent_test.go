package kubernetes_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-go/sandbox/backend/kubernetes"
)

func TestAnAgentIsSentAgain(t *testing.T) {
	const program = "the program"
	dir := t.TempDir()
	attempt := func() (*exec.Cmd, io.WriteCloser) {
		cmd := exec.Command("sh", "-c", kubernetes.SendScript(dir), "sh", "11", "11")
		in, err := cmd.StdinPipe()
		if err == nil {
			cmd.Stdout = io.Discard
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		return cmd, in
	}
	wantWhole := func() {
		t.Helper()
		got, err := os.ReadFile(filepath.Join(dir, "agent"))
		if err != nil || string(got) != program {
			t.Errorf("the agent is %q, %v", got, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "sent")); err != nil {
			t.Error(err)
		}
	}

	whole, in := attempt()
	io.WriteString(in, program)
	in.Close()
	if err := whole.Wait(); err != nil {
		t.Fatal(err)
	}
	wantWhole()
	broken, in := attempt()
	io.WriteString(in, program[:4])
	in.Close()
	if err := broken.Wait(); err == nil {
		t.Error("an attempt that was broken off is a success")
	}
	wantWhole()
	again, in := attempt()
	io.Copy(in, strings.NewReader(program))
	in.Close()
	if err := again.Wait(); err != nil {
		t.Error(err)
	}
	wantWhole()
}
