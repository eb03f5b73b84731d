// Package cgroup limits what processes use together, by control groups of either version
// (cgroups(7)).
package cgroup

// A Place is where a group is, for whoever starts processes in it. The zero value is no
// group. It may be used concurrently.
type Place struct {
	Version int      // of control groups
	Dirs    []string // absolute; one for each hierarchy
}
