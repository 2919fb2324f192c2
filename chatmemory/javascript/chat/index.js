// What a page with a chat, a list of conversations, or both loads: chatmemory/static/chatmemory/chat/chat.js is made of it.

import "./chat.js";
import "./conversations.js";
