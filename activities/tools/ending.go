package tools

import (
	"fmt"
	"strconv"
	"time"

	"conclave/activities/sandbox"
)

// describeEnd says how a command ended, and what can be done about an end that
// was not its own.
func describeEnd(e sandbox.Exit, l sandbox.Limits, limit time.Duration) string {
	switch e.Ended {
	case sandbox.EndedTime:
		remedy := "do less at once"
		if limit < l.Time {
			remedy = fmt.Sprintf("give it more with timeout_seconds (at most %d), or do less at once", int(l.Time.Seconds()))
		}
		return fmt.Sprintf("ended after %s, its time limit; %s", seconds(limit), remedy)
	case sandbox.EndedCPU:
		return fmt.Sprintf("ended: it used more than %s of processor time; do less at once", seconds(l.CPU))
	case sandbox.EndedMemory:
		return fmt.Sprintf("ended: its processes used more than %s of memory together; use less at a time, or fewer processes", size(l.Memory))
	case sandbox.EndedProcesses:
		return fmt.Sprintf("ended: it had more than %d processes and threads; start fewer at a time", l.Processes)
	case sandbox.EndedDisk:
		return fmt.Sprintf("ended: the files in the workspace and /tmp had more than %s together; remove what is not needed", size(l.Disk))
	case sandbox.EndedFiles:
		return fmt.Sprintf("ended: there were more than %d files and directories in the workspace and /tmp; remove what is not needed", l.Files)
	case sandbox.EndedOutput:
		return fmt.Sprintf("ended: it wrote more than %s of output; write less, for instance to a file, or through head or grep", size(l.Output))
	}
	if e.Ended != "" {
		return fmt.Sprintf("ended: it went beyond the limit of %s", e.Ended)
	}
	how := "exit code " + strconv.Itoa(e.Code)
	if e.Signal != "" {
		how += ", killed by " + e.Signal
	}
	return how + ", " + seconds(e.Duration)
}

// seconds is a time for people and models: whole, or to a tenth below ten.
func seconds(d time.Duration) string {
	if d < 10*time.Second && d%time.Second != 0 {
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return strconv.Itoa(int(d.Round(time.Second).Seconds())) + " s"
}
