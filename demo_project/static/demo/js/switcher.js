// The list of conversations, and the button beside it that starts a new one.

const select = document.getElementById("conversation");
const { api, home, untitled, older } = document.body.dataset;

/** Make the list and the button work. */
export function startSwitcher(chat) {
  select.addEventListener("change", () => location.assign(addressOf(select.value)));
  document.getElementById("new").addEventListener("click", async () => {
    // A server may be slow: until the new chat is there, nothing may go to the old one.
    chat.hold();
    try {
      const { id } = await chat.panel.api.call("POST", new URL(`${home}new/`, location.href));
      chat.handOver(id);
      location.assign(addressOf(id));
    } catch (error) {
      chat.release();
      chat.panel.showError(error);
    }
  });
}

/** Fill the list. */
export async function fillSwitcher(chat) {
  const shown = select.options[0];
  const { results, next } = await chat.panel.api.call("GET", new URL(`${api}?page_size=100`, location.href));
  const options = results.filter(({ id }) => id !== shown.value).map((each) => new Option(each.title || untitled, each.id));
  if (next) options.push(Object.assign(new Option(older), { disabled: true }));
  select.replaceChildren(shown, ...options);
}

/** Show the title of the conversation, which may have changed. */
export function showTitle(title) {
  select.options[0].textContent = title || untitled;
  document.title = `${title || untitled} · chatmemory`;
}

const addressOf = (id) => `${home}chat/${id}/`;
