//go:build !unix

package local

import "os"

func remove(root string) error { return os.RemoveAll(root) }
