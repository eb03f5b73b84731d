//go:build linux && (amd64 || arm64)

package serve

import (
	"io"
	"sync"

	"github.com/hashicorp/yamux"
)

// inputs brings together executions and their inputs, which come on streams of
// their own and in any order.
type inputs struct {
	mu  sync.Mutex
	all map[int]*input
}

func newInputs() *inputs { return &inputs{all: make(map[int]*input)} }

// open returns the input of that number, which an execution is to close.
func (in *inputs) open(number int) *input {
	in.mu.Lock()
	defer in.mu.Unlock()
	i, ok := in.all[number]
	if !ok {
		i = &input{inputs: in, number: number, ready: make(chan struct{}), closed: make(chan struct{})}
		in.all[number] = i
	}
	return i
}

// put brings the stream of the input of that number. It is the execution's.
func (in *inputs) put(number int, s *yamux.Stream) {
	i := in.open(number)
	in.mu.Lock()
	defer in.mu.Unlock()
	if i.stream != nil {
		s.Close()
		return
	}
	i.stream = s
	close(i.ready)
}

// An input is the stdin of an execution.
type input struct {
	inputs *inputs
	number int
	ready  chan struct{}
	closed chan struct{}
	stream *yamux.Stream // once ready is closed
}

// Read waits for the stream and reads it.
func (i *input) Read(p []byte) (int, error) {
	select {
	case <-i.ready:
		return i.stream.Read(p)
	case <-i.closed:
		return 0, io.EOF
	}
}

// Close ends a Read that is in progress.
func (i *input) Close() error {
	i.inputs.mu.Lock()
	defer i.inputs.mu.Unlock()
	delete(i.inputs.all, i.number)
	close(i.closed)
	if i.stream != nil {
		return i.stream.Close()
	}
	return nil
}
