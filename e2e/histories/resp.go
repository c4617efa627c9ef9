package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// reply is one reply in RESP2: a text, a list, or an error of the server.
type reply struct {
	text  string
	items []reply
	null  bool
	err   string
}

// conn is one connection, used by one goroutine at a time.
type conn struct {
	socket net.Conn
	reader *bufio.Reader
}

var errMalformed = errors.New("a reply that is no RESP")

func dial(address string, patience time.Duration) (*conn, error) {
	socket, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	return &conn{socket: socket, reader: bufio.NewReader(socket)}, nil
}

func (c *conn) close() { c.socket.Close() }

// send writes commands in one piece.
func (c *conn) send(commands ...[]string) error {
	var text strings.Builder
	for _, words := range commands {
		fmt.Fprintf(&text, "*%d\r\n", len(words))
		for _, word := range words {
			fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	_, err := io.WriteString(c.socket, text.String())
	return err
}

// ask sends commands together and reads their replies; fewer than were asked for come with an error.
func (c *conn) ask(patience time.Duration, commands ...[]string) ([]reply, error) {
	c.socket.SetDeadline(time.Now().Add(patience))
	if err := c.send(commands...); err != nil {
		return nil, err
	}
	var replies []reply
	for range commands {
		one, err := c.read()
		if err != nil {
			return replies, err
		}
		replies = append(replies, one)
	}
	return replies, nil
}

func (c *conn) line() (string, error) {
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	if len(line) < 3 {
		return "", errMalformed
	}
	return line[:len(line)-2], nil
}

func (c *conn) read() (reply, error) {
	line, err := c.line()
	if err != nil {
		return reply{}, err
	}
	switch line[0] {
	case '+', ':':
		return reply{text: line[1:]}, nil
	case '-':
		return reply{err: line[1:]}, nil
	case '$', '*':
		count, err := strconv.Atoi(line[1:])
		if err != nil {
			return reply{}, errMalformed
		}
		if count < 0 {
			return reply{null: true}, nil
		}
		if line[0] == '$' {
			text := make([]byte, count+2)
			if _, err := io.ReadFull(c.reader, text); err != nil {
				return reply{}, err
			}
			return reply{text: string(text[:count])}, nil
		}
		var list reply
		for range count {
			item, err := c.read()
			if err != nil {
				return reply{}, err
			}
			list.items = append(list.items, item)
		}
		return list, nil
	}
	return reply{}, errMalformed
}
