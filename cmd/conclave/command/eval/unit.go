package eval

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"conclave/cmd/conclave/run/record"
	"conclave/engine/config"
	"conclave/engine/eval"
	"conclave/engine/llm"
)

// unit is a question in one epoch.
type unit struct {
	*runner
	q     eval.Question
	epoch int

	paid    llm.Usage       // usage of the runs since the last outcome
	runs    []string        // IDs of these runs
	spent   llm.Usage       // usage of all runs of this command
	charged map[string]bool // IDs of all runs that have been paid for

	scores map[string]*bool // scores found by commands or a grader, by answer

	asked string // ID of the newest session
	why   string // why agents of the newest session have no answer

	team *endedSession // outcome of the evaluated team; nil if it is no arm
	pool []reply       // first answers, those of the team before those of sessions for more
}

// newUnit returns a question in one epoch. Runs of earlier outcomes have been paid for.
func newUnit(r *runner, q eval.Question, epoch int) *unit {
	u := &unit{runner: r, q: q, epoch: epoch, charged: map[string]bool{}, scores: map[string]*bool{}}
	for _, s := range u.samplesOf() {
		for _, id := range s.Runs {
			u.charged[id] = true
		}
	}
	return u
}

func (u *unit) missingArms() []eval.Arm {
	return slices.DeleteFunc(slices.Clone(u.plan.arms), func(a eval.Arm) bool {
		return u.out.hasOutcome(eval.Key{ID: u.q.ID, Epoch: u.epoch, Arm: a.Name})
	})
}

func (u *unit) chargeRun(id string, cost llm.Usage) {
	if !u.charged[id] {
		u.charged[id], u.runs = true, append(u.runs, id)
		u.paid, u.spent = u.paid.Add(cost), u.spent.Add(cost)
	}
}

func (u *unit) askTeam(ctx context.Context, arm string, of config.Team) (*endedSession, error) {
	id := u.plan.sessionID(u.q, u.epoch, arm)
	u.asked = id
	o, err := u.askSession(ctx, id, u.q, of)
	if err == nil {
		u.chargeRun(id, o.result.Cost)
		u.why = o.failureReason()
	}
	return o, err
}

func (u *unit) completeBare(ctx context.Context, id, request string, agent config.Agent) (reply, error) {
	r, err := u.runCompletion(ctx, id, request, agent)
	if err == nil {
		u.chargeRun(id, r.cost)
	}
	return r, err
}

func (u *unit) askArms(ctx context.Context) error {
	missing := u.missingArms()
	if len(missing) == 0 {
		return nil
	}
	if slices.ContainsFunc(u.plan.arms, eval.Arm.Decides) {
		var err error
		if u.team, err = u.askTeam(ctx, "", u.plan.team); err != nil {
			return err
		}
		for _, p := range u.team.firsts {
			u.pool = append(u.pool, u.team.firstReply(p))
		}
	}
	// Arms with an outcome also fill the pool, because arms share samples: those of a
	// smaller majority are the first ones of a larger majority.
	for _, arm := range u.plan.arms {
		if err := u.answerArm(ctx, arm, slices.Contains(missing, arm)); err != nil {
			return err
		}
	}
	return nil
}

// answerArm fills the pool for an arm, and adds its outcome if missing is set.
func (u *unit) answerArm(ctx context.Context, arm eval.Arm, missing bool) error {
	n := u.sampleCount(arm)
	if n > 0 {
		if err := u.fillPool(ctx, arm, n); err != nil {
			return err
		}
	}
	if !missing {
		return nil
	}
	var s eval.Sample
	var err error
	switch {
	case n > 0:
		s, err = u.voteOutcome(ctx, u.pool[:min(n, len(u.pool))])
	case arm.Decides():
		s, err = u.teamOutcome(ctx)
	case arm.Other != "":
		var o *endedSession
		if o, err = u.askTeam(ctx, arm.Slug(), u.plan.others[arm.Name]); err == nil {
			s, err = u.scoreReply(ctx, o.decisionReply())
		}
	default:
		s, err = u.answerPlain(ctx, arm)
	}
	if err != nil {
		return err
	}
	s.ID, s.Epoch, s.Arm = u.q.ID, u.epoch, arm.Name
	s.Paid, s.Runs = u.paid, u.runs
	u.paid, u.runs = llm.Usage{}, nil
	return u.out.addSample(s)
}

func (u *unit) answerPlain(ctx context.Context, arm eval.Arm) (eval.Sample, error) {
	bare, err := u.completeBare(ctx, u.plan.sessionID(u.q, u.epoch, arm.Slug()), u.q.Prompt(), u.plan.team.Agents[0])
	if err == nil {
		err = u.drawPipeline(ctx, bare.session)
	}
	if err != nil {
		return eval.Sample{}, err
	}
	return u.scoreReply(ctx, bare)
}

// sampleCount returns the number of first answers that an arm needs, or 0 for an arm that
// needs none.
func (u *unit) sampleCount(arm eval.Arm) int {
	switch {
	case arm.Kind == eval.Single:
		return 1
	case arm.Kind == eval.FirstVote && u.team != nil:
		return max(1, len(u.team.firsts))
	case arm.Kind == eval.FirstVote:
		return len(u.plan.team.Agents)
	case arm.Match():
		var each []llm.Usage
		for _, p := range u.team.firsts {
			each = append(each, p.Usage)
		}
		return eval.Matching(u.team.result.Cost, each)
	case arm.Kind == eval.Majority:
		return arm.K
	}
	return 0
}

// fillPool extends the pool to n answers by a session with one agent for each missing answer.
// Agents without an answer leave the pool smaller.
func (u *unit) fillPool(ctx context.Context, arm eval.Arm, n int) error {
	have := len(u.pool)
	if have >= n || u.team != nil && len(u.team.firsts) == 0 {
		return nil
	}
	o, err := u.askTeam(ctx, arm.Slug(), samplingTeam(u.plan.team, have, n-have))
	if err != nil {
		return err
	}
	for _, p := range o.firsts {
		u.pool = append(u.pool, o.firstReply(p))
	}
	return nil
}

func (u *unit) voteOutcome(ctx context.Context, answers []reply) (eval.Sample, error) {
	if len(answers) == 0 {
		return eval.Sample{Failed: cmp.Or(u.why, "no agent gave a first answer"), SessionID: u.asked}, nil
	}
	var keys []string
	var spent llm.Usage
	var seconds float64
	for _, a := range answers {
		keys = append(keys, u.q.VoteKey(u.plan.scorer, a.text))
		spent, seconds = spent.Add(a.cost), max(seconds, a.seconds)
	}
	winner := answers[max(0, eval.Vote(keys))]
	winner.cost, winner.seconds = spent, seconds
	s, err := u.scoreReply(ctx, winner)
	s.Samples = len(answers)
	return s, err
}

func (u *unit) scoreReply(ctx context.Context, r reply) (eval.Sample, error) {
	s := eval.Sample{Answer: r.text, SessionID: r.session, Cost: r.cost, Seconds: r.seconds, Failed: r.failed, Fields: u.q.Fields(u.plan.scorer, r.text)}
	if r.failed != "" {
		return s, nil
	}
	var err error
	s.Extracted, s.Correct, err = u.scoreAnswer(ctx, r)
	if err != nil {
		err = fmt.Errorf("score question %s: %w", u.q.ID, err)
	}
	return s, err
}

func (u *unit) teamOutcome(ctx context.Context) (eval.Sample, error) {
	s, err := u.scoreReply(ctx, u.team.decisionReply())
	if err != nil {
		return s, err
	}
	c := &eval.Conduct{Status: u.team.result.Status, Lost: len(u.team.result.Failed), Support: u.team.result.Support}
	s.Conduct = c
	own, firsts := u.pool[:len(u.team.firsts)], map[string]eval.Member{}
	for _, first := range own {
		scored, err := u.scoreReply(ctx, first)
		if err != nil {
			return s, err
		}
		c.First = append(c.First, scored.Correct)
		firsts[first.step.Agent] = eval.Member{Agent: first.step.Agent, Key: u.q.VoteKey(u.plan.scorer, first.text), Right: scored.Right()}
	}
	for _, a := range u.team.session.Agents {
		if m, answered := firsts[a.ID]; answered || a.Error != nil && a.Answers == 0 {
			m.Agent = a.ID
			c.Members = append(c.Members, m)
		}
	}
	if len(own) > 0 {
		vote, err := u.voteOutcome(ctx, own)
		if err != nil {
			return s, err
		}
		c.FirstVote = vote.Correct
	}
	if u.q.ScoredBy(u.plan.scorer) == eval.Graded {
		return s, nil // to grade every answer shown would cost more than the session
	}
	return s, u.judgeVotes(ctx, c)
}

func (u *unit) judgeVotes(ctx context.Context, c *eval.Conduct) error {
	for _, p := range u.team.session.Steps {
		if p.Vote == nil {
			continue
		}
		right, shown := 0, 0
		forRight := false
		for _, label := range newestShown(u.team.session, p) {
			author := u.team.session.Answered(label)
			scored, err := u.scoreReply(ctx, u.team.firstReply(author))
			if err != nil {
				return err
			}
			shown++
			if scored.Right() {
				right++
				forRight = forRight || label == p.Vote.TargetLabel
			}
		}
		if right == 0 || right == shown {
			continue
		}
		c.Votes++
		c.Chance += float64(right) / float64(shown)
		if forRight {
			c.Judged++
		}
	}
	return nil
}

// newestShown returns the labels of the answers shown to a step, only the newest of each agent.
func newestShown(s *record.Session, p *record.Step) []string {
	latest := map[string]string{}
	for _, label := range slices.Concat(p.Shown, p.Received) {
		if author := s.Answered(label); author != nil {
			latest[author.Agent] = label
		}
	}
	var labels []string
	for _, label := range latest {
		labels = append(labels, label)
	}
	slices.Sort(labels)
	return labels
}
