package local_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/local"
)

// Sandboxes below a directory of the service's own. A service that is root gives each
// a user of its own, here from a range that is known to be free.
func ExampleNew() {
	ctx := context.Background()
	b, err := local.New(&local.Options{
		Dir:   "/var/lib/my-service",
		Users: local.UserRange{First: 300_000, Count: 1_000},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close(ctx) // removes what is left of them
	for _, caveat := range b.Info().Caveats {
		fmt.Fprintln(os.Stderr, "warning:", caveat)
	}

	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Close(ctx)
	rec, err := sb.Run(ctx, sandbox.Command{Shell: "echo hi"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(rec.Stdout)
}
