package project

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// Unfilled is the address in the template of prd.md.
const Unfilled = "http://HOST:PORT"

const prdTemplate = `# Project

Every step reads the sections Application Type, Base URL and Tech Stack. A step whose file begins with the lines
"---", "credentials: true" and "---" also reads Credentials: lines such as "- password: hunter2", of which no value
appears in results. Other sections are for people.

## Application Type

web

## Base URL

` + Unfilled + `

## Tech Stack

## Credentials
`

// PRD is where prd.md is, for people and other programs.
func (p *Project) PRD() string { return filepath.Join(p.dir, prdFile) }

// Template writes a prd.md for its author to fill in, unless there is one.
func (p *Project) Template() (written bool, err error) {
	if _, err := p.root.Lstat(prdFile); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, p.writeBytes(prdFile, []byte(prdTemplate))
}
