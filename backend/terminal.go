package backend

import (
	"cmp"
	"context"
)

// A TerminalSize is the size of a terminal in characters. A zero side is 24 rows
// or 80 columns.
type TerminalSize struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// WithDefaults returns s without a zero side.
func (s TerminalSize) WithDefaults() TerminalSize {
	return TerminalSize{Rows: cmp.Or(s.Rows, 24), Cols: cmp.Or(s.Cols, 80)}
}

// A Resizer is a Process on a terminal. Every Process of a Spec with a Terminal is
// one, where Info.Terminal says that there are any.
type Resizer interface {
	// Resize changes the terminal's size; the kernel tells the foreground process
	// group by SIGWINCH. The error wraps os.ErrProcessDone when the command has
	// ended. The context is used as Process.Signal uses it.
	Resize(context.Context, TerminalSize) error
}
