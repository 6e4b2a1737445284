package team

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"conclave/cmd/conclave/hall"
	"conclave/engine/config"
	"conclave/workflows/drive"
)

// maxInputFile bounds a file that is named on the command line, in bytes.
const maxInputFile = 1 << 20

// ReadFile reads a file that is named on the command line. Pipes and devices are
// refused before they are opened, because reading them may never end.
func ReadFile(name string) ([]byte, error) {
	if name == "-" {
		return nil, errors.New("- stands for no file here, standard input is not read; name a file")
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is %s; name a regular file", name, kindOf(info.Mode()))
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxInputFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxInputFile {
		return nil, fmt.Errorf("%s has more than %d bytes, the most that is read", name, maxInputFile)
	}
	return data, nil
}

// kindOf names the type of a file that is not regular.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "a device"
	}
}

// ReadConfig reads the file of a team configuration; the error for a missing one
// names the command that writes it.
func ReadConfig(name string) ([]byte, error) {
	data, err := ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read the team configuration: %w; `conclave config init %s` writes a starter file", err, hall.ShellQuote(name))
	case err != nil:
		return nil, fmt.Errorf("read the team configuration: %w", err)
	}
	return data, nil
}

// ReadCriteria reads and checks a file of evaluation criteria; no name is no criteria.
func ReadCriteria(file string) (json.RawMessage, error) {
	if file == "" {
		return nil, nil
	}
	data, err := ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the evaluation criteria: %w", err)
	}
	if _, err := config.ParseCriteria(file, data); err != nil {
		return nil, err
	}
	if len(data) > drive.MaxConfig {
		return nil, fmt.Errorf("the evaluation criteria in %s have %d bytes, at most %d are accepted", file, len(data), drive.MaxConfig)
	}
	return data, nil
}
