package sandbox_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"go.uber.org/goleak"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newSandbox returns a sandbox of b that is closed, and its backend with it,
// when the test ends. In a synctest bubble, call the returned function instead.
func newSandbox(t *testing.T, b *fake.Backend, opts *sandbox.Options) (sandbox.Sandbox, func()) {
	t.Helper()
	sb, err := sandbox.New(t.Context(), b, opts)
	if err != nil {
		t.Fatal(err)
	}
	return sb, func() {
		if err := errors.Join(sb.Close(context.Background()), b.Close(context.Background())); err != nil {
			t.Error(err)
		}
	}
}

// readAll reads a stream to its end, and returns its chunks with their data copied.
func readAll(ctx context.Context, s sandbox.Stream) ([]sandbox.Chunk, error) {
	var chunks []sandbox.Chunk
	for {
		c, err := s.Next(ctx)
		if err == io.EOF {
			return chunks, nil
		}
		if err != nil {
			return chunks, err
		}
		c.Data = append([]byte(nil), c.Data...)
		chunks = append(chunks, c)
	}
}
