package backendtest

import (
	"errors"
	"fmt"
	"time"

	"github.com/sandbox-go/sandbox"
)

// completed checks that a command ended by itself with that code and output.
func (s *subject) completed(rec *sandbox.Execution, code int, stdout, stderr string) {
	s.Helper()
	s.ended(rec, sandbox.Completed, code)
	s.printed(rec, stdout, stderr)
}

// none stands for no exit code.
const none = -1

// ended checks status and exit code, and that nothing else went wrong.
func (s *subject) ended(rec *sandbox.Execution, status sandbox.Status, code int) {
	s.Helper()
	got := none
	if rec.ExitCode != nil {
		got = *rec.ExitCode
	}
	if rec.Status != status || got != code {
		s.Errorf("want status %s with exit code %d, got %s", status, code, describe(rec))
	}
	if rec.Err != nil {
		s.Errorf("the record has an error: %v", rec.Err)
	}
}

// printed checks the output of a record that was not cut.
func (s *subject) printed(rec *sandbox.Execution, stdout, stderr string) {
	s.Helper()
	for _, out := range []struct {
		source sandbox.StreamID
		got    sandbox.Output
		want   string
	}{{sandbox.Stdout, rec.Stdout, stdout}, {sandbox.Stderr, rec.Stderr, stderr}} {
		s.same(out.source.String(), out.got.String(), out.want)
		if out.got.Total != int64(len(out.want)) {
			s.Errorf("%v had %d bytes in all, want %d", out.source, out.got.Total, len(out.want))
		}
	}
}

// same compares long texts and shows where they part.
func (s *subject) same(what, got, want string) {
	s.Helper()
	if got == want {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	s.Errorf("%s: %d bytes, want %d; from byte %d on got %q, want %q", what, len(got), len(want), at, excerpt(got[at:]), excerpt(want[at:]))
}

// failedToStart checks that a command could not be started for that reason.
func (s *subject) failedToStart(what string, rec *sandbox.Execution, reason sandbox.Reason) {
	s.Helper()
	var start *sandbox.StartError
	if rec.Status != sandbox.Failed || rec.ExitCode != nil || !errors.As(rec.Err, &start) || start.Reason != reason {
		s.Errorf("%s: want a start error %q, got %s, error %v", what, reason, describe(rec), rec.Err)
	}
	s.printed(rec, "", "")
}

// prompt checks that something took not much longer than it had to.
func (s *subject) prompt(what string, took, least time.Duration) {
	s.Helper()
	if took < least || took > least+soon {
		s.Errorf("%s took %v, want %v", what, took, least)
	}
}

// describe shows a record in one line.
func describe(rec *sandbox.Execution) string {
	code := "none"
	if rec.ExitCode != nil {
		code = fmt.Sprint(*rec.ExitCode)
	}
	return fmt.Sprintf("status %s, exit code %s, signal %d, after %v, stdout %q, stderr %q",
		rec.Status, code, rec.Signal, rec.Duration, excerpt(rec.Stdout.String()), excerpt(rec.Stderr.String()))
}

func excerpt(text string) string {
	if len(text) > 200 {
		return text[:200] + "…"
	}
	return text
}
