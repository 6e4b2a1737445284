package record

import (
	"conclave/engine/coordination"
	"conclave/engine/directory"
	"conclave/workflows/drive"
)

// derive computes the state of a directory without status.json by the rules of step mode.
func (r *Reader) derive(s *Session) {
	s.State.Status, s.State.Phase = drive.Running, coordination.PhaseCoordinating
	if r.root == nil {
		return
	}
	d, warnings, err := directory.Read(r.root)
	if err != nil {
		r.problems = append(r.problems, err.Error())
		return
	}
	for _, w := range warnings {
		r.problems = append(r.problems, w.String())
	}
	report := d.Check(coordination.Config{}, nil)
	s.State.Votes = report.Votes
	for _, a := range report.Agents {
		s.State.Agents = append(s.State.Agents, coordination.AgentView{
			ID: a.ID, Number: a.Number, Status: a.Status, Running: a.Running, Step: a.Step, Answers: a.Answers,
			LatestLabel: a.LatestLabel, Vote: a.Vote, Stop: a.Stop,
		})
	}
	for i, a := range s.State.Agents {
		for _, p := range s.Steps {
			if p.Agent == a.ID {
				s.State.Agents[i].Cost = s.State.Agents[i].Cost.Add(p.Usage)
			}
		}
		s.State.Cost = s.State.Cost.Add(s.State.Agents[i].Cost)
	}
	if c := report.Consensus; c != nil {
		s.State.Status, s.State.Phase = string(coordination.Consensus), coordination.PhaseDone
		s.State.Winner = c.Winner
	}
}
