//go:build linux && (amd64 || arm64)

package agentclient_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/sandbox-go/sandbox/internal/agent/agentclient"
)

// connectTo connects to where a Listener listens, as a command would.
func connectTo(t testing.TB, l *agentclient.Listener) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

func accept(t testing.TB, l *agentclient.Listener) net.Conn {
	t.Helper()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func closeWrite(conn net.Conn) { conn.(interface{ CloseWrite() error }).CloseWrite() }

func TestListener(t *testing.T) {
	l := agentclient.NewListener()
	defer l.Close()
	startAgentWith(t, agentclient.Options{Listener: l})
	text := strings.Repeat("0123456789abcde\n", 1<<16)
	inside := connectTo(t, l)
	conn := accept(t, l)
	go func() {
		io.WriteString(inside, text)
		inside.CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != text {
		t.Errorf("%d bytes came out, %v", len(got), err)
	}
	go func() {
		io.WriteString(conn, text)
		closeWrite(conn)
	}()
	got, err = io.ReadAll(inside)
	if err != nil || string(got) != text {
		t.Errorf("%d bytes came in, %v", len(got), err)
	}
}

// What is broken off on one side is so on the other, and no end.
func TestListenerBrokenOff(t *testing.T) {
	l := agentclient.NewListener()
	defer l.Close()
	startAgentWith(t, agentclient.Options{Listener: l})
	inside := connectTo(t, l)
	conn := accept(t, l)
	io.WriteString(conn, "beginning")
	io.ReadFull(inside, make([]byte, len("beginning")))
	conn.Close()
	if _, err := io.ReadAll(inside); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("inside: %v", err)
	}
	inside = connectTo(t, l)
	conn = accept(t, l)
	io.WriteString(inside, "beginning")
	io.ReadFull(conn, make([]byte, len("beginning")))
	inside.SetLinger(0)
	inside.Close()
	if _, err := io.ReadAll(conn); err == nil {
		t.Error("outside: it has ended")
	}
}

// A listener outlasts a connection to an agent, and stays on its port.
func TestListenerOutlastsAConnection(t *testing.T) {
	l := agentclient.NewListener()
	defer l.Close()
	first := startAgentWith(t, agentclient.Options{Listener: l})
	addr := l.Addr().String()
	inside := connectTo(t, l)
	conn := accept(t, l)
	first.Close()
	first.cmd.Wait()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlasts its agent")
	}
	if _, err := inside.Read(make([]byte, 1)); err == nil {
		t.Error("inside a connection outlasts its agent")
	}
	startAgentWith(t, agentclient.Options{Listener: l})
	if l.Addr().String() != addr {
		t.Errorf("it listens on %v, and before on %s", l.Addr(), addr)
	}
	connectTo(t, l)
	accept(t, l)
}

// After Close nobody can connect, and Accept ends.
func TestListenerCloses(t *testing.T) {
	l := agentclient.NewListener()
	a := startAgentWith(t, agentclient.Options{Listener: l})
	l.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
	for {
		conn, err := net.Dial("tcp", l.Addr().String())
		if errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
		if err == nil {
			conn.Close()
		}
	}
	if _, err := a.Dial(t.Context(), 1); err == nil {
		t.Error("somebody listens on port 1")
	}
}
