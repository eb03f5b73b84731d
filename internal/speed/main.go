// Speed prints what commands, streams and files cost in each kind of sandbox, beside what
// they cost without one, as a table in Markdown:
//
//	go run ./internal/speed -image debian:stable-slim
//
// All places take turns in rounds, so that what else the machine does hits them alike.
// A place that cannot be had here is left out, and the reason is printed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	image := flag.String("image", "", "the image of Docker's sandboxes; empty is the backend's default")
	each := flag.Duration("each", 15*time.Second, "how long each column is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := table(ctx, *image, *each); err != nil {
		log.Fatal(err)
	}
}

// A column is one thing that is measured in every place that can do it.
type column struct {
	title string
	of    func(place) task
	// rate is how many times a task does what the column is about: its figures are then
	// as many per second, and not times.
	rate float64
	unit string
}

var columns = []column{
	{title: "`echo hi`", of: func(p place) task { return p.echo }},
	{title: "16 at once", of: func(p place) task { return many(p.echo) }, rate: clients * times, unit: "/s"},
	{title: "over HTTP", of: func(p place) task { return p.call }},
	{title: "16 over HTTP", of: func(p place) task { return many(p.call) }, rate: clients * times, unit: "/s"},
	{title: "stream", of: func(p place) task { return p.stream }, rate: streamSize / 1e6, unit: " MB/s"},
	{title: "1 KiB written", of: func(p place) task { return p.write }},
	{title: "1 KiB read", of: func(p place) task { return p.read }},
	{title: "create, first result", of: func(p place) task { return p.create }},
}

func table(ctx context.Context, image string, each time.Duration) (err error) {
	places, end, err := open(ctx, image)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	fmt.Printf("%s, Linux %s, %d processors, load %s.\n", runtime.Version(),
		firstLine("uname", "-r"), runtime.NumCPU(), strings.Fields(firstLine("cat", "/proc/loadavg") + " ?")[0])
	rows := make([][]string, len(places))
	head, rule := "|", "|---|"
	for n, p := range places {
		rows[n] = []string{p.name}
	}
	for _, c := range columns {
		head, rule = head+" | "+c.title, rule+"---|"
		took, err := inTurns(ctx, each, places, c.of)
		if err != nil {
			return fmt.Errorf("%s: %w", c.title, err)
		}
		for n := range places {
			rows[n] = append(rows[n], c.cell(took[n], took[0]))
		}
	}
	fmt.Println("\n" + head + " |\n" + rule)
	for _, row := range rows {
		fmt.Println("| " + strings.Join(row, " | ") + " |")
	}
	return nil
}

// cell says how long something took or how fast it was, and its ratio to the first row's.
func (c column) cell(took, first time.Duration) string {
	if took == 0 {
		return ""
	}
	text, ratio := fmt.Sprintf("%.2f ms", took.Seconds()*1e3), took.Seconds()/first.Seconds()
	if c.rate > 0 {
		text, ratio = fmt.Sprintf("%.0f%s", c.rate/took.Seconds(), c.unit), 1/ratio
	}
	if first == 0 || took == first {
		return text
	}
	return fmt.Sprintf("%s (%.2f×)", text, ratio)
}

// firstLine returns the first line that a command prints, and nothing where there is none.
func firstLine(name string, args ...string) string {
	out, _ := exec.Command(name, args...).Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}
