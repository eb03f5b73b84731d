// Package host has what a backend takes of the machine for its sandboxes: directories,
// and numbers of users that are nobody's.
package host
