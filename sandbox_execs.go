package sandbox

import (
	"context"
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
	h.listed = sb.order.PushBack(h)
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
		h.finished = sb.finished.PushBack(h)
	}
	var drop []*execImpl
	oldest := sb.finished.Front()
	for range sb.finished.Len() - max(sb.opts.Records, 0) {
		drop = append(drop, oldest.Value.(*execImpl))
		oldest = oldest.Next()
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
	if sb.execs[h.id] != h {
		return
	}
	delete(sb.execs, h.id)
	sb.order.Remove(h.listed)
	if h.finished != nil {
		sb.finished.Remove(h.finished)
	}
	if sb.keys[h.cmd.Key] == h {
		delete(sb.keys, h.cmd.Key)
	}
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
	execs := make([]Exec, 0, sb.order.Len())
	for e := sb.order.Front(); e != nil; e = e.Next() {
		execs = append(execs, e.Value.(*execImpl))
	}
	return execs
}
