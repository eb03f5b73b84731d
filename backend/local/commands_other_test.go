//go:build unix && !linux

package local_test

func useKeys(string) {}

func keepFew() {}
