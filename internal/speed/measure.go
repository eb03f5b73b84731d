package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandbox-go/sandbox/internal/benchtest"
)

const (
	clients = 16
	times   = 4 // so often each of them in a row
)

// A task does something once and returns how long the part took that counts. A nil one
// says that its place cannot do it.
type task func(context.Context) (time.Duration, error)

// timed makes a task of which everything counts.
func timed(do func(context.Context) error) task {
	return func(ctx context.Context) (time.Duration, error) {
		begin := time.Now()
		err := do(ctx)
		return time.Since(begin), err
	}
}

// many is a task of clients that each do t some times in a row.
func many(t task) task {
	if t == nil {
		return nil
	}
	return timed(func(ctx context.Context) error {
		all, ctx := errgroup.WithContext(ctx)
		for range clients {
			all.Go(func() error {
				for range times {
					if _, err := t(ctx); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return all.Wait()
	})
}

// inTurns does the tasks of all places in turns, for so long and once at least, after a
// round that does not count, and returns the median of each place, which is 0 where it
// has no such task.
func inTurns(ctx context.Context, long time.Duration, places []place, of func(place) task) ([]time.Duration, error) {
	took := make([][]time.Duration, len(places))
	for round, begin := 0, time.Now(); round < 2 || time.Since(begin) < long; round++ {
		// In an order of its own each time: a command that comes after a slow one is slower.
		for _, n := range rand.Perm(len(places)) {
			p := places[n]
			t := of(p)
			if t == nil {
				continue
			}
			d, err := t(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			if round > 0 {
				took[n] = append(took[n], d)
			}
		}
	}
	medians := make([]time.Duration, len(places))
	for n, all := range took {
		if len(all) > 0 {
			medians[n] = benchtest.Median(all)
		}
	}
	return medians, nil
}
