package scenario

import (
	"fmt"
	"sync"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/scenario"
	"conclave/engine/text"
)

// trialBoard tells what happens in several runs, a line at a time.
type trialBoard struct {
	cli *hall.CLI
	mu  sync.Mutex
}

// tell prints the steps that have ended since the last time.
func (b *trialBoard) tell(t *trial) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ; t.told < len(t.run.Steps); t.told++ {
		s := t.run.Steps[t.told]
		if s.Status == scenario.Running {
			return
		}
		line := fmt.Sprintf("%s %s %s: %s", t.slug, s.ID, s.Title, s.Status)
		if s.Status != scenario.Skipped {
			line += " (" + tookMS(s.DurationMS) + ")"
		}
		if s.Error != nil {
			line += ": " + text.Truncate(*s.Error, maxWhy)
		}
		b.line(line)
		for _, w := range s.Warnings {
			b.line(fmt.Sprintf("%s %s warning: %s", t.slug, s.ID, w))
		}
	}
}

// maxWhy is how much of a step's error is shown on a line, in bytes.
const maxWhy = 300

func (b *trialBoard) line(text string) {
	out := b.cli.Stderr
	if b.cli.Automation {
		out = b.cli.Stdout
	}
	fmt.Fprintln(out, progress.Line(text))
}

func tookMS(ms int64) string { return fmt.Sprintf("%.1f s", float64(ms)/1000) }
