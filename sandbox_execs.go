package sandbox

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
)

// reserve returns the execution of that key that is remembered. When there is none
// it makes the caller the only one who starts one, until release is called; others
// wait for that here, without a slot of their own.
func (sb *sandboxImpl) reserve(ctx context.Context, key string) (known *execImpl, release func(), err error) {
	for {
		known, starting, err := sb.tryReserve(key)
		if known != nil || err != nil {
			return known, nil, err
		}
		if starting == nil {
			return nil, sync.OnceFunc(func() { sb.release(key) }), nil
		}
		select {
		case <-starting:
		case <-sb.life.Done():
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// tryReserve returns the execution of that key, or what is closed when the caller who
// is about to start one has done so, or neither: then the caller has the key.
func (sb *sandboxImpl) tryReserve(key string) (known *execImpl, starting chan struct{}, err error) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if key == "" {
		return nil, nil, sb.usableLocked()
	}
	if known := sb.keys[key]; known != nil {
		return known, nil, nil
	}
	if err := sb.usableLocked(); err != nil {
		return nil, nil, err
	}
	if starting := sb.starting[key]; starting != nil {
		return nil, starting, nil
	}
	sb.starting[key] = make(chan struct{})
	return nil, nil, nil
}

// release gives back what reserve has given.
func (sb *sandboxImpl) release(key string) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if starting := sb.starting[key]; starting != nil {
		delete(sb.starting, key)
		close(starting)
	}
}

// register makes h one of the sandbox's executions, so that Close ends it.
func (sb *sandboxImpl) register(h *execImpl) error {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if err := sb.usableLocked(); err != nil {
		return err
	}
	sb.execs[h.id] = h
	sb.enlisted++
	h.number = sb.enlisted
	if h.cmd.Key != "" {
		sb.keys[h.cmd.Key] = h
	}
	return nil
}

// record keeps h, which is over, and lets go of the oldest if it is one too many.
func (sb *sandboxImpl) record(h *execImpl) {
	sb.hooks.recorded(h) // first, so that whoever drops h finds it there
	sb.mu.Lock()
	if sb.execs[h.id] == h { // it may have been dropped already
		sb.finished = append(sb.finished, h)
	}
	var drop []*execImpl
	if n := len(sb.finished) - max(sb.opts.Records, 0); n > 0 {
		drop = slices.Clone(sb.finished[:n])
	}
	sb.mu.Unlock()
	for _, old := range drop {
		sb.forget(old)
		sb.hooks.forgotten(old)
	}
}

// forget lets go of a finished execution.
func (sb *sandboxImpl) forget(h *execImpl) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	delete(sb.execs, h.id)
	if sb.keys[h.cmd.Key] == h {
		delete(sb.keys, h.cmd.Key)
	}
	sb.finished = slices.DeleteFunc(sb.finished, func(other *execImpl) bool { return other == h })
}

func (sb *sandboxImpl) Exec(id string) (Exec, error) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	h, ok := sb.execs[id]
	if !ok {
		return nil, &Error{Op: "find", Sandbox: sb.id, Exec: id, Err: ErrNotFound}
	}
	return h, nil
}

func (sb *sandboxImpl) Execs() []Exec {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	all := slices.SortedFunc(maps.Values(sb.execs), func(a, b *execImpl) int { return cmp.Compare(a.number, b.number) })
	execs := make([]Exec, len(all))
	for i, h := range all {
		execs[i] = h
	}
	return execs
}
