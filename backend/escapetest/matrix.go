//go:build linux

package escapetest

import (
	_ "embed"
	"os"
	"slices"
	"strings"
	"testing"
)

// matrix says which attack which backend holds out against, as the last run has seen it that
// was told to write it.
//
//go:embed MATRIX.md
var matrix string

// matrixVariable names a copy of the matrix that runs write what they see to, in place of
// comparing it.
const matrixVariable = "SANDBOX_ESCAPE_MATRIX"

// What an attack came to, but that it succeeded: then it is why the backend cannot hold it.
const (
	held        = "held"
	notPromised = "not promised"
)

// A table is a matrix: what each attack came to, by column.
type table struct {
	before  string // the text above it
	columns []string
	cells   map[string]map[string]string // by column and attack
}

func parse(text string) *table {
	t := &table{cells: make(map[string]map[string]string)}
	before, rest, _ := strings.Cut(text, "\n|")
	t.before = before
	for n, line := range strings.Split(strings.TrimSpace(rest), "\n") {
		fields := strings.Split(strings.Trim(line, "|"), "|")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		switch {
		case n == 0:
			t.columns = fields[1:]
			for _, c := range t.columns {
				t.cells[c] = make(map[string]string)
			}
		case n > 1 && len(fields) == len(t.columns)+1:
			for i, c := range t.columns {
				t.cells[c][fields[0]] = fields[i+1]
			}
		}
	}
	return t
}

// set puts what was seen into a column.
func (t *table) set(column string, seen map[string]string) {
	if !slices.Contains(t.columns, column) {
		t.columns = append(t.columns, column)
	}
	t.cells[column] = seen
}

func (t *table) String() string {
	lines := []string{t.before, row("attack", t.columns), row("---", slices.Repeat([]string{"---"}, len(t.columns)))}
	for _, a := range Attacks() {
		cells := make([]string, len(t.columns))
		for i, c := range t.columns {
			cells[i] = t.cells[c][a.Name]
		}
		lines = append(lines, row(a.Name, cells))
	}
	return strings.Join(lines, "\n") + "\n"
}

func row(name string, cells []string) string {
	return "| " + name + " | " + strings.Join(cells, " | ") + " |"
}

// compare holds the matrix to what was seen, by attack, or writes it.
func compare(t *testing.T, column string, seen map[string]string) {
	t.Helper()
	if path := os.Getenv(matrixVariable); path != "" {
		text, err := os.ReadFile(path)
		if err == nil {
			all := parse(string(text))
			all.set(column, seen)
			err = os.WriteFile(path, []byte(all.String()), 0o666)
		}
		if err != nil {
			t.Error(err)
		}
		return
	}
	for name, got := range seen {
		if want := parse(matrix).cells[column][name]; got != want {
			t.Errorf("MATRIX.md says %q of %s and %s, and it is %q: see how to write it there", want, column, name, got)
		}
	}
}
