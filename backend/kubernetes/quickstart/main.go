// Quickstart runs a command in a pod of the cluster that kubectl would use.
//
//	go run -C backend/kubernetes ./quickstart [-namespace NS] [-image IMAGE] [COMMAND]
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sandbox-go/sandbox"
	"github.com/sandbox-go/sandbox/backend/kubernetes"
)

func main() {
	namespace := flag.String("namespace", "", "`namespace` of the pod; empty is the kubeconfig's")
	image := flag.String("image", "", "`image` of the pod; empty is "+kubernetes.DefaultImage)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	options := &kubernetes.Options{Namespace: *namespace, Image: *image, Owner: "quickstart"}
	if err := run(ctx, options, cmp.Or(strings.Join(flag.Args(), " "), "echo hello from $HOSTNAME")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, options *kubernetes.Options, text string) error {
	b, err := kubernetes.New(ctx, options)
	if err != nil {
		return err
	}
	defer b.Close(context.WithoutCancel(ctx)) // also after Ctrl-C, which ends ctx
	began := time.Now()
	sb, err := sandbox.New(ctx, b, nil)
	if err != nil {
		return err
	}
	defer sb.Close(context.WithoutCancel(ctx))
	fmt.Printf("a pod is ready after %v\n", time.Since(began).Round(time.Millisecond))
	rec, err := sb.Run(ctx, sandbox.Command{Shell: text})
	if err != nil {
		return err
	}
	fmt.Printf("%s after %v\n%s%s", rec.Status, rec.Duration.Round(time.Microsecond), rec.Stdout, rec.Stderr)
	return nil
}
