package mux_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sandbox-go/sandbox/internal/agent/shared/mux"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Streams that are used at once carry what was written to them, of any size, and
// nothing runs any more when both sides are closed.
func TestStreams(t *testing.T) {
	near, far := net.Pipe()
	client, err := mux.Client(near)
	if err != nil {
		t.Fatal(err)
	}
	server, err := mux.Server(far)
	if err != nil {
		t.Fatal(err)
	}
	var serving, asking sync.WaitGroup
	serving.Go(func() {
		for {
			stream, err := server.AcceptStream()
			if err != nil {
				return
			}
			serving.Go(func() {
				io.Copy(stream, stream)
				stream.Close()
			})
		}
	})
	for n := range 20 {
		asking.Go(func() {
			stream, err := client.OpenStream()
			if err != nil {
				t.Error(err)
				return
			}
			sent := bytes.Repeat([]byte{byte(n)}, n*n*n*1000+n)
			go func() {
				for part := sent; len(part) > 0; {
					size := min(len(part), 70_000)
					stream.Write(part[:size])
					part = part[size:]
				}
				stream.Close()
			}()
			got, err := io.ReadAll(stream)
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("stream %d: %d bytes of %d came back, %v", n, len(got), len(sent), err)
			}
		})
	}
	asking.Wait()
	client.Close()
	server.Close()
	serving.Wait()
}

// Closing a side ends it although the other does not read.
func TestCloseWhileWriting(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	client, err := mux.Client(near)
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error)
	go func() {
		stream, err := client.OpenStream()
		for err == nil {
			_, err = stream.Write(make([]byte, 1<<16))
		}
		written <- err
	}()
	client.Close()
	if err := <-written; err == nil {
		t.Error("a write to a closed connection succeeds")
	}
}
