//go:build simulate

package stagetest_test

import (
	"os"
	"runtime"
	"testing"
)

// On one processor the order of goroutines, which the bubble leaves open, hardly ever differs.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}
