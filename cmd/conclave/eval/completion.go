package eval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	acts "conclave/activities/pipeline"
	"conclave/cmd/conclave/page"
	"conclave/cmd/conclave/record"
	"conclave/cmd/conclave/runs"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/eval"
	"conclave/engine/pipeline"
	pipelineflow "conclave/workflows/pipeline"
)

// complete asks an agent's model without any tools or instructions. It is a pipeline run
// with one step and thus as durable as a session.
func (r *runner) complete(ctx context.Context, id, request string, agent config.Agent) (reply, error) {
	agent.ID, agent.SystemMessage, agent.Subtask, agent.MCPServers = "agent_a", "", "", nil
	agent.Tools.Files, agent.Tools.Shell = false, false
	step := config.Defaults[config.PipelineStep]()
	step.Name, step.Agent = "answer", agent.ID
	p := config.Defaults[config.Pipeline]()
	p.Agents, p.Start, p.Steps = []config.Agent{agent}, step.Name, []config.PipelineStep{step}

	in := pipelineflow.Input{Request: request}
	var err error
	if in.Pipeline, in.Config, err = r.hand(p); err != nil {
		return reply{}, err
	}
	ended, err := r.await(ctx, r.kinds.pipeline, id, request, in)
	if err != nil {
		return reply{}, err
	}
	result, ok := ended.(acts.Result)
	if !ok {
		return reply{}, fmt.Errorf("pipeline run %s has a result of another kind", id)
	}
	a := reply{session: id, cost: result.Usage, layout: artifact.InPipeline(id)}
	if result.Status != pipeline.Completed {
		a.failed = string(result.Status)
		if result.Error != nil {
			a.failed += ": " + result.Error.Message
		}
		return a, nil
	}
	a.text, err = runs.WholeText(ctx, r.conn, a.layout, runs.Text{Content: result.Final, Truncated: result.FinalTruncated, Path: result.FinalPath})
	a.seconds = r.lasted(ctx, id)
	return a, err
}

// drawPipeline writes the page of a pipeline run, if it was prepared.
func (r *runner) drawPipeline(ctx context.Context, id string) error {
	run, err := record.ReadPipeline(ctx, r.conn.Store, artifact.InPipeline(id))
	if errors.Is(err, record.ErrNone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read pipeline run %s: %w", id, err)
	}
	html, err := page.Pipeline(ctx, run, time.Now())
	if err != nil {
		return err
	}
	return r.out.write(filepath.Join(pagesDir, id+".html"), html)
}

// lasted returns the duration of a run in seconds, or 0 if the server does not report it.
func (r *runner) lasted(ctx context.Context, id string) float64 {
	described, err := r.conn.Client.DescribeWorkflowExecution(ctx, id, "")
	info := described.GetWorkflowExecutionInfo()
	if err != nil || info.GetCloseTime() == nil {
		return 0
	}
	return info.GetCloseTime().AsTime().Sub(info.GetStartTime().AsTime()).Seconds()
}

// graded asks the grader whether an answer is correct. It returns nil if the reply says
// neither. Equal answers are graded once.
func (u *unit) graded(ctx context.Context, a reply) (*bool, error) {
	if strings.TrimSpace(a.text) == "" {
		return nil, nil
	}
	sum := sha256.Sum256([]byte(a.text))
	id := fmt.Sprintf("eval-%s-%s-grade-%s", u.plan.id, u.q.ID, hex.EncodeToString(sum[:6]))
	said, err := u.complete(ctx, id, eval.GradePrompt(u.q, a.text), *u.plan.grader)
	if err != nil || said.failed != "" {
		return nil, err
	}
	return eval.Grade(said.text), nil
}
