package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"conclave/cmd/conclave/progress"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	sessionflow "conclave/workflows/session"
)

// offlineNote is said wherever the built-in model had a part.
const offlineNote = "offline: the built-in deterministic model answers and votes; no language model is asked"

// printResult prints how a session ended and returns the exit code as an error.
func (c *cli) printResult(ctx context.Context, p *place, k known, r sessionflow.Result) error {
	switch {
	case !c.people():
		if err := c.printJSON(r); err != nil {
			return err
		}
	case r.Winner != "":
		if err := c.printAnswer(ctx, p, r); err != nil {
			return err
		}
	}
	if k.offline {
		c.say("%s", offlineNote)
	}
	if r.Winner == "" {
		return &endError{code: resultCode(r), err: noAnswer(r)}
	}
	if ran, more := ranOut(r.Status); ran != "" {
		c.say("%s ran out: this is the best answer so far; give it more with %s", ran, more)
	}
	return silent(resultCode(r))
}

// ranOut is what a session ended for want of, and the key that gives it more;
// empty for other ends.
func ranOut(status string) (what, key string) {
	switch coordination.Status(status) {
	case coordination.Timeout:
		return "the session's time", "timeout_settings.orchestrator_timeout_seconds"
	case coordination.OverSpent:
		return "the session's budget", "orchestrator.budget"
	}
	return "", ""
}

// printAnswer prints the whole answer for a person, and about it on stderr.
func (c *cli) printAnswer(ctx context.Context, p *place, r sessionflow.Result) error {
	answer := r.Answer
	if r.AnswerTruncated && r.AnswerPath != nil {
		whole, err := wholeAnswer(ctx, p, r)
		if err != nil {
			c.say("only the first %d bytes of the answer are shown: %v; the whole text is at %s", len(answer), err, *r.AnswerPath)
		} else {
			answer = whole
		}
	}
	if _, err := fmt.Fprintln(c.stdout, strings.TrimRight(progress.Plain(answer), "\n")); err != nil {
		return end(exitNoAnswer, "print the answer: %w", err)
	}
	how := r.Status + " · " + progress.Plural(r.Votes[r.Winner], "fresh vote")
	if coordination.Status(r.Status) == coordination.Presented {
		how = "presentation, without a vote"
	}
	c.say("\n%s (%s) by %s · %s · %s", r.Winner, r.WinnerLabel, how, progress.Plural(r.Rounds, "round"), progress.Cost(r.Cost))
	c.say("all answers, votes and files: %s", c.pullLine(p, r.SessionID, r.AnswerPath, "/sessions/"))
	return nil
}

// pullLine is the command line that copies the files of a session or a pipeline's
// run. Those of a cluster are in the bucket that the path of one of them names,
// below root.
func (c *cli) pullLine(p *place, id string, path *string, root string) string {
	rest, ok := "", false
	if path != nil {
		rest, ok = strings.CutPrefix(*path, "s3://")
	}
	if !p.cluster || !ok {
		return c.again("pull", id+" DIR")
	}
	bucket, key, _ := strings.Cut(rest, "/")
	line := "conclave pull " + id + " DIR --bucket " + shellQuote(bucket)
	if prefix, _, _ := strings.Cut("/"+key, root); prefix != "" {
		line += " --prefix " + shellQuote(strings.Trim(prefix, "/"))
	}
	return line
}

// wholeAnswer reads an answer that was too long for the workflow's result.
func wholeAnswer(ctx context.Context, p *place, r sessionflow.Result) (string, error) {
	if p.store == nil {
		return "", fmt.Errorf("reading more needs --bucket")
	}
	reading, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	key := artifact.InBucket(r.SessionID).Final(r.Winner, "answer.json")
	a, err := artifact.ReadJSON[artifact.Answer](reading, p.store, key)
	return a.Answer, err
}

// noAnswer says why there is none, and what can be done.
func noAnswer(r sessionflow.Result) error {
	if r.Status == statusCancelled {
		return fmt.Errorf("session %s was cancelled; what was on record by then can be pulled", r.SessionID)
	}
	if r.Error != nil {
		why := r.Error.Message
		if why == "" {
			why = r.Error.Type
		}
		return fmt.Errorf("session %s failed: %s", r.SessionID, why)
	}
	return fmt.Errorf("session %s ended as %s without an answer: no agent has one", r.SessionID, r.Status)
}

// printJSON prints one object on stdout: indented for --json, on one line for
// --automation.
func (c *cli) printJSON(v any) error {
	var data []byte
	var err error
	if c.automation {
		data, err = json.Marshal(v)
	} else {
		data, err = json.MarshalIndent(v, "", "  ")
	}
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	if _, err := c.stdout.Write(append(escapeControls(data), '\n')); err != nil {
		return end(exitNoAnswer, "print the output: %w", err)
	}
	return nil
}

// escapeControls escapes in JSON the control characters that JSON lets through
// and terminals obey. They occur in strings only.
func escapeControls(data []byte) []byte {
	var b strings.Builder
	for _, r := range string(data) {
		if 0x7f <= r && r <= 0x9f {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}
