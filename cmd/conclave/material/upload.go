package material

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/artifact"
	"conclave/engine/base"
	"conclave/engine/text"
)

// Upload stores a directory. On stderr it reports the progress, the files left out, and
// the sizes.
func Upload(ctx context.Context, c *hall.CLI, store artifact.Store, dir string, secrets bool) (base.Uploaded, error) {
	u := base.Upload{Store: store, Dir: dir, Secrets: secrets, Now: time.Now, Git: settings(ctx, dir)}
	if kept, err := c.KeepDir(); err == nil {
		u.Known = knownFile(kept, dir)
	}
	bar := &bar{cli: c, dir: dir}
	if c.Interactive() {
		u.Progress = bar.show
	}
	done, err := u.Run(ctx)
	bar.clear()
	if err != nil {
		return done, explain(ctx, err)
	}
	tell(c, dir, done)
	return done, nil
}

// KnownDir is the directory, within the data directory, with the hashes of uploaded files.
const KnownDir = "bases/known"

// knownFile is the file with the hashes of a directory's files.
func knownFile(dataDir, dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Join(dataDir, KnownDir, artifact.SumOf([]byte(dir))+".json")
}

// explain converts an error about the directory to a usage error.
func explain(ctx context.Context, err error) error {
	_, limit := errors.AsType[*artifact.LimitError](err)
	_, path := errors.AsType[*fs.PathError](err)
	switch {
	case ctx.Err() != nil:
		return hall.Exitf(hall.ExitInterrupted, "interrupted: nothing was started, and what was uploaded is removed by `conclave prune`")
	case limit, path:
		return hall.Exitf(hall.ExitUsage, "%w", err)
	}
	return err
}

// maxNamed is the maximum number of files named in a message.
const maxNamed = 20

// tell prints the files left out, and the sizes.
func tell(c *hall.CLI, dir string, done base.Uploaded) {
	for _, w := range done.LeftOut[:min(len(done.LeftOut), maxNamed)] {
		c.Warnf("%s: %s", dir, w)
	}
	if more := len(done.LeftOut) - maxNamed; more > 0 {
		c.Warnf("%s: %d more files were left out", dir, more)
	}
	if len(done.Secrets) > 0 {
		c.Warnf("%s: left out because of secrets: %s; --include-secrets includes them", dir, names(done.Secrets))
	}
	if !c.Scripted() {
		sent := "all of it is stored already"
		if done.Sent > 0 {
			sent = "sent " + text.Size(done.Sent)
		}
		c.Infof("%s: %s, %s; %s", dir, progress.Plural(done.Files, "file"), text.Size(done.Bytes), sent)
	}
}

func names(paths []string) string {
	list := strings.Join(paths[:min(len(paths), maxNamed)], ", ")
	if more := len(paths) - maxNamed; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// bar is a terminal line that shows the progress of an upload.
type bar struct {
	cli   *hall.CLI
	dir   string
	shown time.Time
	width int
}

// barCells is the width of the bar in characters.
const barCells = 24

func (b *bar) show(p base.Progress) {
	if time.Since(b.shown) < 100*time.Millisecond {
		return
	}
	b.shown = time.Now()
	full := 0
	if p.AllBytes > 0 {
		full = int(min(barCells, barCells*p.Bytes/p.AllBytes))
	}
	line := fmt.Sprintf("uploading %s [%s%s] %s of %s, %d of %d files", text.OneLine(text.Terminal(filepath.Base(b.dir))),
		strings.Repeat("█", full), strings.Repeat("░", barCells-full), text.Size(p.Bytes), text.Size(p.AllBytes), p.Files, p.AllFiles)
	fmt.Fprintf(b.cli.Stderr, "\r\x1b[K%s", line)
	b.width = len(line)
}

func (b *bar) clear() {
	if b.width > 0 {
		fmt.Fprint(b.cli.Stderr, "\r\x1b[K")
	}
}
