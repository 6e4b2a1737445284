//go:build !linux

package serve

func dropProgram() {}
