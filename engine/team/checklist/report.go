package checklist

import (
	"path"
	"strings"
)

// leastReport is the minimum length of a report, in characters, without surrounding white
// space.
const leastReport = 100

// report checks the report of a checklist. The path must be relative to the workspace, and
// the file must exist when the checklist is submitted. The packet of an evaluation needs no
// workspace.
func (s *State) report(name string) *fault {
	p, otherwise := s.policy, "leave report_path out"
	if p.Packet != "" {
		otherwise = "give " + p.Packet
	}
	var content []byte
	switch clean := path.Clean(name); {
	case name == "" && p.Packet != "":
		return &fault{code: reportRequired, why: "The report of this checklist is " + p.Packet + ": give it as report_path."}
	case name == "":
		return nil
	case p.Packet != "" && clean == p.Packet:
		content = []byte(p.PacketText)
	case path.IsAbs(name) || clean == ".." || strings.HasPrefix(clean, "../"):
		return &fault{code: reportOutside, why: "report_path has to be a path in your workspace, relative to it."}
	case p.Read == nil:
		return &fault{code: reportMissing, why: "You have no workspace for a report: " + otherwise + "."}
	default:
		var err error
		if content, err = p.Read(clean); err != nil {
			return &fault{code: reportMissing, why: "There is no readable file at report_path. Write it first, in an earlier reply, or " + otherwise + "."}
		}
	}
	if len([]rune(strings.TrimSpace(string(content)))) < leastReport {
		return &fault{code: reportEmpty, why: "The file at report_path has less than 100 characters: it has to give your findings, with evidence."}
	}
	return nil
}
