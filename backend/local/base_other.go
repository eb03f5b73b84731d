//go:build !unix

package local

import "os"

// lockDir opens a directory.
func lockDir(name string) (*os.File, error) { return os.Open(name) }
