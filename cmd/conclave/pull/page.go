package pull

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"conclave/cmd/conclave/page"
	"conclave/cmd/conclave/record"
	"conclave/engine/artifact"
)

// The files that a pull generates from the copied ones.
const (
	pageFile   = "index.html"
	answerFile = "ANSWER.md"
)

// writePipelinePage writes the page and the final text of the copied run.
func (c *copier) writePipelinePage(ctx context.Context) error {
	run, err := record.ReadPipeline(ctx, c.target, artifact.Layout{})
	if errors.Is(err, record.ErrNone) {
		return nil // nothing but damaged files
	}
	if err != nil {
		return err
	}
	html, err := page.Pipeline(ctx, run, time.Now())
	if err != nil {
		return err
	}
	if _, err := c.target.PutStream(ctx, pageFile, bytes.NewReader(html)); err != nil {
		return err
	}
	if _, err := c.target.PutStream(ctx, answerFile, strings.NewReader(page.PipelineText(run))); err != nil {
		return err
	}
	c.result.Page = c.target.URL(pageFile)
	return nil
}

// writePage writes index.html and ANSWER.md from the copied files.
func (c *copier) writePage(ctx context.Context) error {
	if c.claim == pipelineClaim {
		return c.writePipelinePage(ctx)
	}
	reader := record.NewReader(c.target, artifact.Layout{}, c.root)
	s, err := reader.Read(ctx)
	if errors.Is(err, record.ErrNone) {
		return nil // nothing but damaged files
	}
	if err != nil {
		return err
	}
	var html bytes.Buffer
	if err := page.Write(ctx, &html, reader, time.Now()); err != nil {
		return err
	}
	if _, err := c.target.PutStream(ctx, pageFile, &html); err != nil {
		return err
	}
	if _, err := c.target.PutStream(ctx, answerFile, strings.NewReader(page.AnswerText(s))); err != nil {
		return err
	}
	c.result.Page = c.target.URL(pageFile)
	return nil
}
