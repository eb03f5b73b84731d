package sandbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
)

// sameError compares errors as programs do: by what they wrap, and their text.
var sameError = cmp.Comparer(func(a, b error) bool {
	if a == nil || b == nil {
		return a == b
	}
	for _, is := range []error{sandbox.ErrLost, sandbox.ErrGone, sandbox.ReasonBadDirectory, sandbox.ReasonNotFound} {
		if errors.Is(a, is) != errors.Is(b, is) {
			return false
		}
	}
	var s, u *sandbox.StartError
	var v, w *sandbox.SurvivorsError
	errors.As(a, &s)
	errors.As(b, &u)
	errors.As(a, &v)
	errors.As(b, &w)
	var g, h *sandbox.GapError
	errors.As(a, &g)
	errors.As(b, &h)
	return a.Error() == b.Error() && cmp.Equal(g, h) && cmp.Equal(s, u) && cmp.Equal(v, w)
})

// What is read of output has a form in JSON, in words, and comes back as it was.
func TestOutputIsStored(t *testing.T) {
	for want, v := range map[string]any{
		`{"source":"stderr","offset":3,"data":"aGk="}`:                      &sandbox.Chunk{Source: sandbox.Stderr, Offset: 3, Data: []byte("hi")},
		`{"source":"stdout","offset":3,"gap":2}`:                            &sandbox.Chunk{Offset: 3, Gap: 2},
		`{"source":"stderr","text":"hi","partial":true,"offset":1,"end":3}`: &sandbox.Line{Source: sandbox.Stderr, Text: "hi", Partial: true, Offset: 1, End: 3},
		`{"stdout":1,"stderr":2}`:                                           &sandbox.Offsets{Stdout: 1, Stderr: 2},
		`{"shell":"a","wait":"exit"}`:                                       &sandbox.Command{Shell: "a", Wait: sandbox.WaitExit},
	} {
		got, err := json.Marshal(v)
		if err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
		again := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		if err := json.Unmarshal(got, again); err != nil || !cmp.Equal(v, again) {
			t.Errorf("%s comes back as %+v, %v", got, again, err)
		}
	}
	for _, v := range []any{new(sandbox.StreamID), new(sandbox.WaitMode)} {
		if err := json.Unmarshal([]byte(`"other"`), v); err == nil {
			t.Errorf("%T takes a word that is none", v)
		}
	}
}

// A record is stored whole, and comes back as it was.
func TestExecutionsAreStored(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	start := &sandbox.StartError{Reason: sandbox.ReasonBadDirectory, Path: "/gone", Errno: 2, Detail: "removed"}
	survivors := &sandbox.SurvivorsError{Survivors: []sandbox.Survivor{{PID: 7, Name: "d"}}}
	for name, rec := range map[string]sandbox.Execution{
		"zero": {},
		"all": {
			ID: "exec_1", SandboxID: "sbx_1", Status: sandbox.Completed, ExitCode: new(137), Signal: sandbox.SIGKILL, OOMKilled: true,
			Command: sandbox.Command{
				Shell: "a", Argv: []string{"b", ""}, Dir: "c", Env: map[string]string{"D": ""}, User: "e", OpenStdin: true,
				Terminal: &sandbox.TerminalSize{Rows: 1, Cols: 2}, Timeout: time.Hour, Grace: time.Second, Wait: sandbox.WaitExit,
				MaxOutput: -1, MaxTail: 3, Key: "k",
			},
			StdinErr:  errors.New("upload"),
			OutputErr: &sandbox.GapError{Source: sandbox.Stderr, Offset: 3, Bytes: 2},
			Stdout:    sandbox.Output{Head: []byte("a\xff\x00"), Tail: []byte("€"), Total: 1 << 40},
			Stderr:    sandbox.Output{Total: 3},
			Usage:     &sandbox.Usage{UserTime: 1, SystemTime: 2, MaxRSS: 3, OOMKills: 4},
			StartedAt: now, FinishedAt: now.Add(time.Hour), Duration: time.Hour + 1,
		},
		"no start":           {Status: sandbox.Failed, Err: start},
		"no start, in words": {Status: sandbox.Failed, Err: fmt.Errorf("first: %w", start)},
		"survivors":          {Status: sandbox.TimedOut, ExitCode: new(124), Err: survivors},
		"lost":               {Status: sandbox.Failed, Err: sandbox.ErrLost},
		"lost, with cause":   {Status: sandbox.Failed, Err: fmt.Errorf("%w: %w", sandbox.ErrLost, errors.New("EOF"))},
		"gone":               {Status: sandbox.Failed, Err: fmt.Errorf("driver: %w", sandbox.ErrGone)},
		"all at once":        {Status: sandbox.Failed, Err: errors.Join(sandbox.ErrLost, sandbox.ErrGone, start, survivors)},
	} {
		t.Run(name, func(t *testing.T) {
			stored, err := json.Marshal(rec)
			if err != nil {
				t.Fatal(err)
			}
			var got sandbox.Execution
			if err := json.Unmarshal(stored, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(rec, got, sameError); diff != "" {
				t.Errorf("read back (-want +got):\n%s\nfrom %s", diff, stored)
			}
			again, err := json.Marshal(&got)
			if err != nil || !bytes.Equal(stored, again) {
				t.Errorf("stored again, %v:\n%s\nwant\n%s", err, again, stored)
			}
		})
	}
}

// What a sandbox gives comes back as well, times by the instant.
func TestARealRecordIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fb := fake.New(nil)
		fb.Handle("cat", fake.Result(3, "a\xff", "€€"))
		sb, stop := newSandbox(t, fb, nil)
		defer stop()
		for _, cmd := range []sandbox.Command{{Shell: "cat", MaxOutput: 4, Stdin: strings.NewReader("in")}, {Argv: []string{"missing"}}} {
			rec, err := sb.Run(t.Context(), cmd)
			if err != nil {
				t.Fatal(err)
			}
			stored, err := json.Marshal(rec)
			if err != nil {
				t.Fatal(err)
			}
			var got *sandbox.Execution
			if err := json.Unmarshal(stored, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(rec, got, sameError, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("read back (-want +got):\n%s\nfrom %s", diff, stored)
			}
		}
	})
}

// A record that is broken leaves what it was read into.
func TestABrokenRecord(t *testing.T) {
	rec := sandbox.Execution{ID: "exec_1"}
	if err := json.Unmarshal([]byte(`{"id":"exec_2","stdout":7}`), &rec); err == nil || rec.ID != "exec_1" {
		t.Errorf("got %v and %+v", err, rec)
	}
}
