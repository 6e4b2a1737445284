package directory

import (
	"fmt"
	"os"
)

// CriteriaFile holds what the answers in a directory are judged by.
const CriteriaFile = "eval_criteria.json"

// Criteria reads the criteria file as it is, nil if there is none.
func Criteria(root *os.Root) ([]byte, error) {
	data, err := readFile(root, CriteriaFile)
	if err != nil {
		return nil, fmt.Errorf("%s %w", CriteriaFile, err)
	}
	return data, nil
}
