//go:build linux && (amd64 || arm64)

package serve

import (
	"io"
	"sync"

	"github.com/hashicorp/yamux"

	"github.com/sandbox-go/sandbox/internal/framing"
)

// inputs brings together executions and their inputs, which come on streams of
// their own and in any order. For every number there comes one of each.
type inputs struct {
	mu   sync.Mutex
	all  map[int]*input
	late map[int]bool // numbers of executions that ended before their input came
}

func newInputs() *inputs { return &inputs{all: make(map[int]*input), late: make(map[int]bool)} }

// open returns the input of that number, which an execution is to close.
func (in *inputs) open(number int) *input {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.openLocked(number)
}

func (in *inputs) openLocked(number int) *input {
	i, ok := in.all[number]
	if !ok {
		i = &input{inputs: in, number: number, ready: make(chan struct{}), closed: make(chan struct{})}
		in.all[number] = i
	}
	return i
}

// put brings the stream of the input of that number. It is the execution's.
func (in *inputs) put(number int, s *yamux.Stream) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.late[number] {
		delete(in.late, number)
		s.Close()
		return
	}
	i := in.openLocked(number)
	i.stream, i.content = s, framing.NewReader(s)
	close(i.ready)
}

// An input is the stdin of an execution.
type input struct {
	inputs  *inputs
	number  int
	ready   chan struct{}
	closed  chan struct{}
	stream  *yamux.Stream   // once ready is closed
	content *framing.Reader // once ready is closed
}

// Read waits for the stream and reads it.
func (i *input) Read(p []byte) (int, error) {
	select {
	case <-i.ready:
		return i.content.Read(p)
	case <-i.closed:
		return 0, io.EOF
	}
}

// Close ends a Read that waits for the stream. One that reads it ends when the
// service closes it too, which it does when nobody will read more.
func (i *input) Close() error {
	i.inputs.mu.Lock()
	defer i.inputs.mu.Unlock()
	delete(i.inputs.all, i.number)
	close(i.closed)
	if i.stream != nil {
		return i.stream.Close()
	}
	i.inputs.late[i.number] = true
	return nil
}
