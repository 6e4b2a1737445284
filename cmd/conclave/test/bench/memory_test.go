//go:build bench

package bench

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkMemory measures the resident memory of the embedded stack and of the
// command with the worker: a second after the start, and the peak in a session.
func BenchmarkMemory(b *testing.B) {
	m := newModelServer(b, threeRounds.minds(100*time.Millisecond))
	s := newStack(b, m)
	time.Sleep(time.Second) // garbage of the start is not idle memory
	stack, worker := s.PID, s.dev.Process.Pid
	stackIdle, workerIdle := memory(b, stack, "VmRSS"), memory(b, worker, "VmRSS")

	var ofStack, ofWorker samples
	for b.Loop() {
		forget(b, stack)
		forget(b, worker)
		s.session("conclave")
		ofStack.add(memory(b, stack, "VmHWM"))
		ofWorker.add(memory(b, worker, "VmHWM"))
	}
	b.ReportMetric(stackIdle, "stack-idle-MiB")
	b.ReportMetric(workerIdle, "worker-idle-MiB")
	b.ReportMetric(ofStack.median(), "stack-session-MiB")
	b.ReportMetric(ofWorker.median(), "worker-session-MiB")
}

// memory reads one of the kernel's figures of a process, in MiB: VmRSS is the current
// size, VmHWM the peak since forget.
func memory(b *testing.B, pid int, figure string) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(b, err)
	match := regexp.MustCompile(figure + `:\s+(\d+) kB`).FindSubmatch(status)
	require.Len(b, match, 2, "%s", status)
	kib, err := strconv.ParseFloat(string(match[1]), 64)
	require.NoError(b, err)
	return kib / 1024
}

// forget resets a process's peak.
func forget(b *testing.B, pid int) {
	b.Helper()
	const peak = "5"
	require.NoError(b, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte(peak), 0))
}
