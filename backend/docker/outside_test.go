package docker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/sandbox-go/sandbox"
)

// ownerLabel is the label by which what belongs to an owner is found.
const ownerLabel = "io.github.sandbox-go.owner"

// left returns the names of an owner's containers and volumes.
func left(tb testing.TB, api *client.Client, owner string) []string {
	tb.Helper()
	filters := client.Filters{}.Add("label", ownerLabel+"="+owner)
	containers, err := api.ContainerList(context.Background(), client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		tb.Fatal(err)
	}
	volumes, err := api.VolumeList(context.Background(), client.VolumeListOptions{Filters: filters})
	if err != nil {
		tb.Fatal(err)
	}
	var names []string
	for _, c := range containers.Items {
		names = append(names, "container "+c.Names[0]+" ("+string(c.State)+")")
	}
	for _, v := range volumes.Items {
		names = append(names, "volume "+v.Name)
	}
	return names
}

// nothingLeft checks that an owner has nothing on the engine.
func nothingLeft(tb testing.TB, api *client.Client, owner string) {
	tb.Helper()
	if names := left(tb, api, owner); len(names) > 0 {
		tb.Errorf("left behind: %s", strings.Join(names, ", "))
	}
}

// eventually waits until ok holds.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for begin := time.Now(); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			tb.Fatalf("timed out waiting until %s", what)
		}
	}
}

// inspect returns what the engine says about a container.
func inspect(tb testing.TB, api *client.Client, name string) container.InspectResponse {
	tb.Helper()
	found, err := api.ContainerInspect(context.Background(), name, client.ContainerInspectOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	return found.Container
}

// containerOf returns the name of a sandbox's container.
func containerOf(sb sandbox.Sandbox) string { return "sandbox-" + sb.ID() }

// describe returns a record for a failure's text.
func describe(rec *sandbox.Execution) string {
	if rec == nil {
		return "no record"
	}
	code := "none"
	if rec.ExitCode != nil {
		code = fmt.Sprint(*rec.ExitCode)
	}
	return fmt.Sprintf("%s, code %s, signal %v, oom %v, err %v, stdout %q, stderr %q",
		rec.Status, code, rec.Signal, rec.OOMKilled, rec.Err, rec.Stdout, rec.Stderr)
}
