// A chat by useChat, with nothing of ours on the page.
import { useChat } from '@ai-sdk/react';
import { DefaultChatTransport } from 'ai';
import { useState } from 'react';
import { createRoot } from 'react-dom/client';

const { conversation, csrf } = document.body.dataset;
const api = `/api/conversations/${conversation}/turns/`;
const headers = { 'X-CSRFToken': csrf };
const transport = new DefaultChatTransport({
  api,
  headers,
  prepareReconnectToStreamRequest: () => ({ api: `${api}stream/` }),
});

function Part({ part }) {
  if (part.type === 'text') return <p>{part.text}</p>;
  if (part.type === 'reasoning') return <details open>{part.text}</details>;
  if (part.type === 'dynamic-tool') {
    const said = part.state === 'output-error' ? part.errorText : JSON.stringify(part.output);
    return <figure data-state={part.state}>{`${part.toolName} ${JSON.stringify(part.input)} ${said ?? '…'}`}</figure>;
  }
  return null;
}

function Chat({ said }) {
  const [forgotten, setForgotten] = useState([]);
  const { messages, sendMessage, regenerate, status, error } = useChat({
    id: conversation,
    messages: said,
    transport,
    resume: true,
    onData({ type, data }) {
      if (type === 'data-memory') setForgotten(before => [...before, ...data.evicted.map(item => item.text)]);
    },
  });
  async function stopAll() {
    // The stream ends by itself, and brings the mark of the stopped answer.
    await fetch(api, { method: 'DELETE', headers });
  }
  function send(event) {
    event.preventDefault();
    const { text } = event.target.elements;
    sendMessage({ text: text.value });
    text.value = '';
  }
  return (
    <main data-status={status}>
      {messages.map(message => (
        <article
          key={message.id}
          id={`message-${message.id}`}
          data-role={message.role}
          data-stopped={message.metadata?.stopped}
        >
          {message.parts.map((part, index) => <Part key={index} part={part} />)}
        </article>
      ))}
      {error && <div role="alert">{error.message}</div>}
      <form onSubmit={send}>
        <input name="text" aria-label="Message" />
        <button>Send</button>
        <button type="button" onClick={stopAll}>Stop</button>
        <button type="button" onClick={() => regenerate()}>Try again</button>
      </form>
      <ul aria-label="Forgotten">{forgotten.map((text, index) => <li key={index}>{text}</li>)}</ul>
    </main>
  );
}

const { messages } = await (await fetch(api)).json();
createRoot(document.getElementById('root')).render(<Chat said={messages} />);
