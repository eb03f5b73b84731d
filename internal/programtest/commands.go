package programtest

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

// The variables of the environment that make a test program a command, see [Commands].
const (
	// AsEcho: a server, which sends back what comes to the network and address that the
	// variable holds, as in "tcp 127.0.0.1:80".
	AsEcho = "SANDBOX_TEST_ECHO"

	// AsClient: a client of the network and address that the variable holds, which sends
	// what its stdin brings and prints what comes back.
	AsClient = "SANDBOX_TEST_CLIENT"

	// AsTracer: the tracer of the process whose number the variable holds, on Linux. It
	// prints "tracing", and never waits for the process.
	AsTracer = "SANDBOX_TEST_TRACER"
)

// Commands makes the calling test program the command that its environment names, if any.
// TestMain calls it first.
func Commands() {
	if place := os.Getenv(AsEcho); place != "" {
		sendBack(place)
	}
	if place := os.Getenv(AsClient); place != "" {
		connect(place)
	}
	if pid := os.Getenv(AsTracer); pid != "" {
		trace(pid)
	}
}

func connect(place string) {
	network, address, _ := strings.Cut(place, " ")
	conn, err := net.Dial(network, address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() {
		io.Copy(struct{ io.Writer }{conn}, os.Stdin)
		conn.(*net.TCPConn).CloseWrite()
	}()
	if _, err := io.Copy(struct{ io.Writer }{os.Stdout}, conn); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func sendBack(place string) {
	network, address, _ := strings.Cut(place, " ")
	l, err := net.Listen(network, address)
	for err == nil {
		var conn net.Conn
		if conn, err = l.Accept(); err == nil {
			go func() {
				defer conn.Close()
				io.Copy(struct{ io.Writer }{conn}, conn) // without splice(2), whose pipes Go keeps
			}()
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
