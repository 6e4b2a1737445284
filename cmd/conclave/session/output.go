package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"conclave/cmd/conclave/answer"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/material"
	"conclave/cmd/conclave/runs"
	"conclave/engine/artifact"
)

// checkOutput refuses a file of --output-file that cannot be written.
func checkOutput(name string) error {
	if name == "" {
		return nil
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("--output-file: %s is not a regular file; name another one", name)
	}
	probe, err := os.CreateTemp(filepath.Dir(name), ".conclave-*")
	if err != nil {
		return fmt.Errorf("--output-file: %w; name a file in a directory that can be written", err)
	}
	_ = probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		return fmt.Errorf("--output-file: %w", err)
	}
	return nil
}

// checkApply refuses --apply without a directory, or if nobody can be asked.
func (f flags) checkApply(c *hall.CLI) error {
	switch {
	case !f.apply:
		return nil
	case f.material.Directory() == "" && f.continues == "":
		return errors.New("--apply applies the change of --base DIR; add --base")
	case !c.CanConfirm():
		return errors.New("--apply asks before it changes anything, and there is no terminal to ask on; leave it out, and use `conclave apply ID` after the run")
	}
	return nil
}

// offer shows the answer's changes and asks whether to apply them to the base's directory.
func offer(ctx context.Context, conn *hall.Connection, id string) error {
	dir, err := material.Directory(conn, id)
	if err != nil {
		return hall.Exitf(hall.ExitNoAnswer, "%w", err)
	}
	if dir == "" {
		return hall.Exitf(hall.ExitNoAnswer, "the session has no directory to apply its answer to; `%s` applies it to one", conn.CommandLine("apply", id, "--to", "DIR"))
	}
	return answer.Offer(ctx, conn, id, dir)
}

// writeAnswer writes the full answer of an ended session to a file.
func writeAnswer(ctx context.Context, conn *hall.Connection, id, name string) error {
	run := runs.Run{Kind: Kind(), ID: id, Workflow: id}
	r, err := await(ctx, conn, run)
	if err != nil || r.Winner == "" {
		return err
	}
	text, err := runs.WholeText(ctx, conn, artifact.InBucket(id), runs.Text{Content: r.Answer, Truncated: r.AnswerTruncated, Path: r.AnswerPath})
	if err == nil {
		err = os.WriteFile(name, []byte(text), 0o644) //nolint:gosec // a document for people
	}
	if err != nil {
		return hall.Exitf(hall.ExitNoAnswer, "write the answer of session %s to %s: %w; `%s` prints it", id, name, err, conn.CommandLine("result", id))
	}
	return nil
}
