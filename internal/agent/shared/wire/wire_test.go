package wire_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-go/sandbox/backend"
	"github.com/sandbox-go/sandbox/internal/agent/shared/wire"
	"github.com/sandbox-go/sandbox/internal/cgroup"
)

// messages has some of what is sent.
func messages() []wire.Message {
	survivors := []backend.Survivor{{PID: 7, Name: "a (b) c"}, {PID: 1 << 22}}
	return []wire.Message{
		&wire.Hello{Version: wire.Version},
		&wire.Limits{Memory: 1 << 40, CPUs: 0.5, PIDs: -1, Protected: true},
		&wire.Offer{FD: 9, Secret: "secret"},
		&wire.Choice{Direct: true},
		&wire.Started{PID: 5, Handed: true},
		&wire.Handed{Number: 7, Count: 3},
		&wire.Start{
			Shell: "echo \x00\xff", Argv: []string{"a", ""}, Dir: "/x", Env: []string{"A=b\nc"}, User: "u:g",
			UID: -1, GID: 1 << 31, Own: true, HasInput: true, Input: 9, Handing: 8,
		},
		&wire.Start{},
		&wire.Start{Open: []string{"/tmp"}, Group: cgroup.Place{Version: 1, Dirs: []string{"/a", "/b"}}},
		&wire.Started{PID: 5},
		&wire.Refused{Err: backend.StartError{Reason: backend.NotFound, Path: "/p", Errno: 2, Detail: "d"}},
		&wire.Exit{Exit: backend.Exit{
			Code: 255, Signal: backend.SIGKILL, OOMKilled: true,
			Usage: &backend.Usage{UserTime: time.Second, SystemTime: 1, MaxRSS: 1 << 40, OOMKills: 3},
		}},
		&wire.Exit{Exit: backend.Exit{Signal: backend.SIGKILL}}, // what it cost is unknown
		&wire.Over{},
		&wire.Empty{},
		&wire.Output{Stream: 2, Data: []byte("\x00\x00\x00\x05hello")},
		&wire.Signal{Signal: 64},
		&wire.Discard{},
		&wire.Kill{},
		&wire.Killed{Survivors: survivors},
		&wire.Killed{},
		&wire.Sweep{UIDs: []int64{1, 1 << 31}},
		&wire.Swept{UID: 1 << 31, Survivors: []backend.Survivor{{PID: 3, Name: "sh"}}},
		&wire.Lost{Why: "w"},
		&wire.Input{Number: 3},
		&wire.Listen{ID: 7, Port: 80},
		&wire.Dial{ID: 6, Port: 80},
		&wire.Dialed{ID: 6, Refused: true, Why: "w"},
		&wire.Enter{
			Root: "/", Entries: []string{"bin", "usr"}, Place: "/p", Tree: 4, Data: "/d", DataSize: 1 << 33, Overlay: true, WorkAt: []string{"/a", "/b"}, Hide: []string{"/h"},
			Mounts:  []backend.Mount{{Source: "/s", Target: "/t", ReadOnly: true}, {Source: "/s2", Target: "/t2"}},
			TmpSize: 1 << 40, UID: -1, GID: 1000, Processes: -1, Limited: true, Landlock: true, Filter: []byte("\x00\xff"),
		},
		&wire.Entered{Failed: "mount", Errno: 1},
		&wire.Entered{},
		&wire.Spawn{ID: 4},
		&wire.Spawned{ID: 4, Errno: 11},
		&wire.KillOrphans{ID: 5, UID: -1},
		&wire.OrphansKilled{ID: 5, Survivors: survivors},
	}
}

func encode(t testing.TB, ms ...wire.Message) []byte {
	var b []byte
	for _, m := range ms {
		var err error
		if b, err = wire.Append(b, m); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func TestMessagesSurviveTheWay(t *testing.T) {
	sent := messages()
	r := wire.NewReader(iotest.OneByteReader(bytes.NewReader(encode(t, sent...))))
	for i, want := range sent {
		got, err := r.Next()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("message %d: error %v, (-want +got)\n%s", i, err, diff)
		}
	}
	if m, err := r.Next(); err != io.EOF {
		t.Errorf("after the last: %v, %v", m, err)
	}
}

// Every field of every message travels, also those of the structs in it.
func TestEveryFieldTravels(t *testing.T) {
	n := 0
	for kind := range 256 {
		m, _ := wire.Parse([]byte{byte(kind)})
		if m == nil {
			continue
		}
		n++
		fill(t, reflect.ValueOf(m).Elem())
		frame := encode(t, m)
		got, err := wire.Parse(frame[4:])
		if diff := cmp.Diff(m, got); err != nil || diff != "" {
			t.Errorf("%T: error %v, (-want +got)\n%s", m, err, diff)
		}
	}
	if n < 20 {
		t.Errorf("got %d messages, want all", n)
	}
}

// fill gives v, and all in it, a value that is not zero.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(7)
	default:
		t.Fatalf("a field of type %v", v.Type())
	}
}

func TestFrames(t *testing.T) {
	whole := encode(t, &wire.Lost{Why: "why"})
	tests := []struct {
		name string
		in   []byte
		want error // nil is any
	}{
		{"nothing", nil, io.EOF},
		{"part-of-a-length", whole[:2], io.ErrUnexpectedEOF},
		{"part-of-a-message", whole[:len(whole)-1], io.ErrUnexpectedEOF},
		{"a-length-beyond-the-limit", []byte{0xff, 0xff, 0xff, 0xff, 1}, wire.ErrTooLong},
		{"a-length-beyond-what-comes", []byte{0, 0xff, 0xff, 0xff, 1}, io.ErrUnexpectedEOF},
		{"no-kind", []byte{0, 0, 0, 0}, nil},
		{"an-unknown-kind", []byte{0, 0, 0, 1, 200}, nil},
		{"more-than-the-message", []byte{0, 0, 0, 2, encode(t, &wire.Kill{})[4], 0}, nil},
		{"more-strings-than-bytes", []byte{0, 0, 0, 4, encode(t, &wire.Start{})[4], 0, 0xfe, 0x7f}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := wire.NewReader(bytes.NewReader(tt.in)).Next()
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v and error %v, want %v", m, err, tt.want)
			}
		})
	}
}

func TestTooLongIsNotSent(t *testing.T) {
	var b bytes.Buffer
	err := wire.Write(&b, &wire.Start{Shell: strings.Repeat("x", wire.MaxFrame)})
	if !errors.Is(err, wire.ErrTooLong) || b.Len() > 0 {
		t.Errorf("error %v, %d bytes written", err, b.Len())
	}
}

func TestGreet(t *testing.T) {
	tests := []struct {
		name string
		m    wire.Message
		ok   bool
	}{
		{"this-version", &wire.Hello{Version: wire.Version}, true},
		{"another-version", &wire.Hello{Version: wire.Version + 1}, false},
		{"no-hello", &wire.Kill{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var said bytes.Buffer
			heard := bytes.NewReader(append(encode(t, tt.m), "rest"...))
			err := wire.Greet(struct {
				io.Reader
				io.Writer
			}{heard, &said})
			if (err == nil) != tt.ok {
				t.Errorf("error %v", err)
			}
			if !bytes.Equal(said.Bytes(), encode(t, &wire.Hello{Version: wire.Version})) {
				t.Errorf("it said %q", said.Bytes())
			}
			if heard.Len() != len("rest") {
				t.Errorf("%d bytes are left", heard.Len())
			}
		})
	}
}

// FuzzReader reads what either side may be sent. It must not panic, nor take
// memory that did not come; and what is understood is the same when it is sent on.
func FuzzReader(f *testing.F) {
	for _, m := range messages() {
		f.Add(encode(f, m))
	}
	f.Add(encode(f, messages()...))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := wire.NewReader(bytes.NewReader(in))
		for {
			m, err := r.Next()
			if err != nil {
				return
			}
			again, err := wire.NewReader(bytes.NewReader(encode(t, m))).Next()
			if diff := cmp.Diff(m, again); err != nil || diff != "" {
				t.Fatalf("error %v, (-first +second)\n%s", err, diff)
			}
		}
	})
}
