package contained

import (
	"cmp"

	"github.com/sandbox-go/sandbox/backend"
)

// FillLimits returns l with its zero fields from def.
func FillLimits(l, def backend.Limits) backend.Limits {
	return backend.Limits{
		Memory: cmp.Or(l.Memory, def.Memory),
		CPUs:   cmp.Or(l.CPUs, def.CPUs),
		PIDs:   cmp.Or(l.PIDs, def.PIDs),
	}
}

// Unenforced returns the names of the limits in want that are not kept by held,
// where a zero field is unknown and a negative one is no limit.
func Unenforced(want, held backend.Limits) []string {
	var names []string
	look := func(name string, want, held float64) {
		// The kernel rounds, but not by a hundredth.
		if want > 0 && (held < 0 || held > 1.01*want) {
			names = append(names, "Limits."+name)
		}
	}
	look("Memory", float64(want.Memory), float64(held.Memory))
	look("CPUs", want.CPUs, held.CPUs)
	look("PIDs", float64(want.PIDs), float64(held.PIDs))
	return names
}
