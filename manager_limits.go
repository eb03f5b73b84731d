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

// newSlots returns what hands out n slots at once, first come first served; nil
// where there is no limit.
func newSlots(n int) *semaphore.Weighted {
	if n == 0 {
		return nil
	}
	return semaphore.NewWeighted(int64(n))
}

// An owner is what all sandboxes of one Key.Owner share.
type owner struct {
	slots   *semaphore.Weighted
	budget  account
	members int // guarded by Manager.mu
	waiting int // guarded by Manager.mu
}

// ownerLocked returns the owner of that name. One that has no entries is forgotten
// with the last.
func (m *Manager) ownerLocked(name string) *owner {
	o := m.owners[name]
	if o == nil {
		o = &owner{slots: newSlots(m.opts.share(name, m.opts.MaxRunningPerOwner))}
		m.owners[name] = o
	}
	return o
}

// share returns what a limit per owner is for the one of that name: 0 is none, as for
// those without a name.
func (o *ManagerOptions) share(name string, limit int) int {
	if name == "" {
		return 0
	}
	return limit
}

// A slot is one that an execution takes while it runs.
type slot struct {
	of   *semaphore.Weighted // nil is no limit
	what LimitKind
	max  int
}

// slots are those that an execution takes, in that order: one in the sandbox, one of
// its owner's, and one among all. So an owner whose slots are taken is not in the way
// of others.
func (en *entry) slots() [3]slot {
	opts := &en.m.opts
	return [3]slot{
		{en.own, LimitRunningPerSandbox, en.maxRunning},
		{en.owner.slots, LimitRunningPerOwner, opts.MaxRunningPerOwner},
		{en.m.slots, LimitRunning, opts.MaxRunning},
	}
}

// admit takes the slots of one more execution, and waits for them.
func (en *entry) admit(ctx context.Context) (done func(), err error) {
	began := time.Now()
	slots := en.slots()
	waited := false
	for i, s := range slots {
		if s.of == nil || s.of.TryAcquire(1) {
			continue
		}
		waited = true
		if err = en.await(ctx, s, began.Add(en.m.opts.MaxWait)); err != nil {
			give(slots[:i])
			break
		}
	}
	if waited {
		en.m.observed.waited(ctx, WaitEvent{SandboxEvent: en.box.event(), Waited: time.Since(began), Err: err})
	}
	if err != nil {
		return nil, err
	}
	en.m.mu.Lock()
	defer en.m.mu.Unlock()
	en.running++
	return en.done, nil
}

// done gives back what admit has taken.
func (en *entry) done() {
	en.m.mu.Lock()
	en.running--
	en.used = time.Now()
	en.m.mu.Unlock()
	slots := en.slots()
	give(slots[:])
}

func give(slots []slot) {
	for _, s := range slots {
		if s.of != nil {
			s.of.Release(1)
		}
	}
}

// retryAfter is when a caller that got no slot may try again: executions are
// short, and nobody knows when one will end.
const retryAfter = time.Second

// await takes a slot when one is free, and waits for it until then, or until the
// sandbox ends.
func (en *entry) await(ctx context.Context, s slot, until time.Time) error {
	if time.Now().Before(until) {
		leave, err := en.queue()
		if err != nil {
			return err
		}
		defer leave()
	}
	wait, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	defer context.AfterFunc(en.box.life, cancel)()
	if s.of.Acquire(wait, 1) == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := en.box.usable(); err != nil {
		return err
	}
	return &LimitError{Limit: s.what, Max: s.max, RetryAfter: retryAfter}
}

// queue counts a start that waits for its slot, until leave is called.
func (en *entry) queue() (leave func(), err error) {
	m := en.m
	m.mu.Lock()
	defer m.mu.Unlock()
	share := m.opts.share(en.key.Owner, m.opts.MaxWaitingPerOwner)
	switch {
	case m.opts.MaxWaiting > 0 && m.waiting >= m.opts.MaxWaiting:
		return nil, &LimitError{Limit: LimitWaiting, Max: m.opts.MaxWaiting, RetryAfter: retryAfter}
	case share > 0 && en.owner.waiting >= share:
		return nil, &LimitError{Limit: LimitWaitingPerOwner, Max: share, RetryAfter: retryAfter}
	}
	m.waiting++
	en.owner.waiting++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.waiting--
		en.owner.waiting--
	}, nil
}

func (en *entry) recorded(h *execImpl)   { en.m.records.add(&en.owner.budget, h) }
func (en *entry) forgotten(h *execImpl)  { en.m.records.remove(h) }
func (en *entry) managerKey() Key        { return en.key }
func (en *entry) closed(context.Context) {} // Manager.Close waits for the observer

func (en *entry) events() *events {
	if en.untold {
		return new(events)
	}
	return &en.m.observed
}

// A budget bounds what the records of all sandboxes keep of output. The oldest give
// way, of the owner that keeps the most: so none loses any to another that keeps more.
type budget struct {
	max int64 // 0 is no bound

	mu       sync.Mutex // guards all below, and the accounts
	used     int64
	accounts map[*account]struct{} // those with a record
	at       map[*execImpl]place
}

// An account is what one owner keeps.
type account struct {
	used  int64
	order list.List // of *execImpl, oldest first
}

// A place is where a record is found.
type place struct {
	account *account
	element *list.Element
}

func newBudget(max int64) *budget {
	return &budget{max: max, accounts: make(map[*account]struct{}), at: make(map[*execImpl]place)}
}

// add accounts for a new record and makes room for it.
func (b *budget) add(a *account, h *execImpl) {
	b.mu.Lock()
	b.accounts[a] = struct{}{}
	b.at[h] = place{a, a.order.PushBack(h)}
	size := h.size()
	a.used += size
	b.used += size
	var drop []*execImpl
	for b.max > 0 && b.used > b.max {
		oldest := b.largestLocked().order.Front().Value.(*execImpl)
		b.removeLocked(oldest)
		drop = append(drop, oldest)
	}
	b.mu.Unlock()
	for _, old := range drop {
		old.sb.forget(old)
	}
}

func (b *budget) largestLocked() *account {
	var largest *account
	for a := range b.accounts {
		if largest == nil || a.used > largest.used {
			largest = a
		}
	}
	return largest
}

func (b *budget) remove(h *execImpl) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removeLocked(h)
}

func (b *budget) removeLocked(h *execImpl) {
	p, ok := b.at[h]
	if !ok {
		return
	}
	size := h.size()
	p.account.order.Remove(p.element)
	p.account.used -= size
	if p.account.order.Len() == 0 {
		delete(b.accounts, p.account)
	}
	delete(b.at, h)
	b.used -= size
}

// forgetAll accounts for the records of a sandbox that is gone.
func (b *budget) forgetAll(sb *sandboxImpl) {
	sb.mu.Lock()
	all := slices.Collect(maps.Values(sb.execs))
	sb.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range all {
		b.removeLocked(h)
	}
}
