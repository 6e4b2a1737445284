package eval

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/team"
	"conclave/engine/config"
	"conclave/engine/eval"
	"conclave/engine/llm"
)

// meter counts questions, time and cost. It prints a line for each question whose
// outcomes are complete. It is safe for concurrent use.
type meter struct {
	*runner
	began time.Time

	mu    sync.Mutex
	total int // number of questions and epochs
	left  int
	asked int       // questions asked in this run
	paid  llm.Usage // usage of earlier runs
	run   llm.Usage // usage of this run
}

// newMeter counts the questions that lack an outcome and the costs of the outcomes that exist.
func newMeter(r *runner) *meter {
	m := &meter{runner: r, total: r.plan.size(), began: time.Now()}
	for epoch := 1; epoch <= r.plan.epochs; epoch++ {
		for _, q := range r.plan.questions {
			if len((&unit{runner: r, q: q, epoch: epoch}).missing()) > 0 {
				m.left++
			}
		}
	}
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	m.paid = paid(r.out.samples)
	return m
}

// paid returns the total cost of the runs that were started for samples.
func paid(samples []eval.Sample) (sum llm.Usage) {
	for _, s := range samples {
		sum = sum.Add(s.Paid)
	}
	return sum
}

func tokens(u llm.Usage) int64 { return u.InputTokens + u.OutputTokens }

// begin prints the number of questions to ask.
func (m *meter) begin() {
	if m.offline {
		m.cli.Infof("%s", team.OfflineNote)
	}
	m.cli.Infof("evaluation %s: %s in the arms %s; %d left", m.plan.id, progress.Plural(m.total, "question"), strings.Join(m.plan.names(), ", "), m.left)
	m.cli.Infof("team from %s: %s", m.plan.source, team.Describe(m.plan.team))
}

// spent reports whether a limit of the evaluation is used up.
func (m *meter) spent() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.paid.Add(m.run)
	return m.plan.tokens > 0 && tokens(all) >= m.plan.tokens || m.plan.usd > 0 && all.AtLeastUSD() >= m.plan.usd
}

// done prints the outcomes of a question, the number of remaining questions and their expected
// cost.
func (m *meter) done(u *unit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left--
	m.asked++
	m.run = m.run.Add(u.spent)
	line := fmt.Sprintf("%d of %d · %s: %s", m.total-m.left, m.total, u.q.ID, u.words())
	if m.left > 0 {
		share := float64(m.left) / float64(m.asked)
		line += " · about " + progress.Clock(time.Duration(float64(time.Since(m.began))*share)) + " left"
		if more := float64(tokens(m.run)) * share; more > 0 {
			line += ", " + progress.Count(int64(more)) + " more tokens"
		}
		if usd := m.run.TotalUSD; usd != nil && *usd > 0 {
			line += fmt.Sprintf(", $%.2f more", *usd*share)
		}
	}
	m.cli.Infof("%s", line)
}

// samplesOf returns the outcomes of the unit.
func (u *unit) samplesOf() []eval.Sample {
	u.out.mu.Lock()
	defer u.out.mu.Unlock()
	var own []eval.Sample
	for _, s := range u.out.samples {
		if s.ID == u.q.ID && s.Epoch == u.epoch {
			own = append(own, s)
		}
	}
	return own
}

// words describes the outcomes of the unit's arms.
func (u *unit) words() string {
	var told []string
	for _, s := range u.samplesOf() {
		word := "wrong"
		switch {
		case s.Right():
			word = "right"
		case s.Failed != "":
			word = "failed"
		case s.Correct == nil:
			word = "unparsed"
		}
		told = append(told, s.Arm+" "+word)
	}
	return strings.Join(told, ", ")
}

// size returns the number of questions in all epochs.
func (p *plan) size() int { return len(p.questions) * p.epochs }

func (p *plan) names() []string {
	var names []string
	for _, arm := range p.arms {
		names = append(names, arm.Name)
	}
	return names
}

// playsOffline reports whether an agent uses the built-in model.
func (p *plan) playsOffline() bool {
	return slices.ContainsFunc(p.teams(), func(t config.Team) bool {
		return slices.ContainsFunc(t.Agents, func(a config.Agent) bool { return a.Backend.Type == config.Offline })
	})
}

// settings returns the settings of the output directory.
func (p *plan) settings(c *hall.CLI, file string) settings {
	offline := ""
	if p.playsOffline() {
		offline = team.OfflineNote
	}
	return settings{
		ID: p.id, Data: file, DataHash: p.hash, Team: p.team.Hash(), Others: p.hashes(), Source: p.source, Scorer: p.scorer,
		Arms: p.names(), Epochs: p.epochs, Questions: len(p.questions), Version: c.Version, Offline: offline,
	}
}

// hashes returns the hashes of the teams of other arms and of the grader.
func (p *plan) hashes() map[string]string {
	hashes := map[string]string{}
	for _, arm := range p.arms {
		if arm.Other != "" {
			hashes[arm.Slug()] = p.others[arm.Name].Hash()
		}
	}
	if p.graderHash != "" {
		hashes["grader"] = p.graderHash
	}
	return hashes
}
