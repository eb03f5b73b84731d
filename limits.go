package sandbox

import (
	"container/list"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// newTurns returns what hands out n turns at once, first come first served; nil
// where there is no limit.
func newTurns(n int) *semaphore.Weighted {
	if n == 0 {
		return nil
	}
	return semaphore.NewWeighted(int64(n))
}

// admit waits for a turn in the sandbox, then for one among all.
func (mb *member) admit(ctx context.Context) (done func(), err error) {
	m := mb.m
	until := time.Now().Add(m.opts.MaxWait)
	if err := take(ctx, until, mb.turns, "running executions in one sandbox", m.opts.MaxRunningPerSandbox); err != nil {
		return nil, err
	}
	if err := take(ctx, until, m.turns, "running executions", m.opts.MaxRunning); err != nil {
		give(mb.turns)
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	mb.running++
	return mb.done, nil
}

// done gives back what admit has given.
func (mb *member) done() {
	mb.m.mu.Lock()
	mb.running--
	mb.used = time.Now()
	mb.m.mu.Unlock()
	give(mb.m.turns)
	give(mb.turns)
}

// retryAfter is when a caller that got no turn may try again: executions are
// short, and nobody knows when one will end.
const retryAfter = time.Second

// take takes a turn, and waits for it until then.
func take(ctx context.Context, until time.Time, turns *semaphore.Weighted, what string, n int) error {
	if turns == nil || turns.TryAcquire(1) {
		return nil
	}
	wait, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if turns.Acquire(wait, 1) == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return &LimitError{Limit: what, Max: n, RetryAfter: retryAfter}
}

func give(turns *semaphore.Weighted) {
	if turns != nil {
		turns.Release(1)
	}
}

func (mb *member) recorded(h *handle)     { mb.m.records.add(h) }
func (mb *member) forgotten(h *handle)    { mb.m.records.remove(h) }
func (mb *member) events() *events        { return &mb.m.observed }
func (mb *member) closed(context.Context) {} // Manager.Close waits for the observer

// A budget bounds what the records of all sandboxes keep of output. The oldest
// give way.
type budget struct {
	max int64 // 0 is no bound

	mu    sync.Mutex // guards all below
	used  int64
	order *list.List // of *handle, oldest first
	at    map[*handle]*list.Element
}

func newBudget(max int64) *budget {
	return &budget{max: max, order: list.New(), at: make(map[*handle]*list.Element)}
}

// add accounts for a new record and makes room for it.
func (b *budget) add(h *handle) {
	b.mu.Lock()
	b.at[h] = b.order.PushBack(h)
	b.used += h.size()
	var drop []*handle
	for b.max > 0 && b.used > b.max {
		oldest := b.order.Front().Value.(*handle)
		b.removeLocked(oldest)
		drop = append(drop, oldest)
	}
	b.mu.Unlock()
	for _, old := range drop {
		old.sb.forget(old)
	}
}

func (b *budget) remove(h *handle) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removeLocked(h)
}

func (b *budget) removeLocked(h *handle) {
	if at, ok := b.at[h]; ok {
		b.order.Remove(at)
		delete(b.at, h)
		b.used -= h.size()
	}
}

// forgetAll accounts for the records of a sandbox that is gone.
func (b *budget) forgetAll(sb *box) {
	sb.mu.Lock()
	all := slices.Collect(maps.Values(sb.execs))
	sb.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range all {
		b.removeLocked(h)
	}
}
