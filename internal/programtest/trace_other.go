//go:build !linux

package programtest

func trace(string) {}
